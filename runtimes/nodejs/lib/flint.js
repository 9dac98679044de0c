'use strict';
// The module `flint` for user code: hooks that run around a snapshot.

const Module = require('module');
const path = require('path');
const { pathToFileURL } = require('url');

const MODULES = path.join(__dirname, '..', 'modules');

const before = [];
const after = [];

function register(hooks, hook) {
  if (typeof hook !== 'function') throw new TypeError('A snapshot hook must be a function.');
  hooks.push(hook);
}

const flint = Object.freeze({
  /** `hook` runs once, before the process is frozen; may be async. The last registered runs first. */
  beforeSnapshot(hook) { register(before, hook); },
  /**
   * `hook` runs in every clone before its first call; may be async. The first registered runs first. Without clones it runs once, after the
   * code is loaded.
   */
  afterRestore(hook) { register(after, hook); },
});

/** Makes the global `flint`, `require('flint')` and `import 'flint'` work; a package of that name beside the function takes precedence. */
function install() {
  Object.defineProperty(globalThis, 'flint', { value: flint, configurable: true, writable: true, enumerable: false });
  const { NODE_PATH } = process.env;
  process.env.NODE_PATH = NODE_PATH ? `${NODE_PATH}:${MODULES}` : MODULES;
  Module._initPaths();
  if (NODE_PATH === undefined) delete process.env.NODE_PATH;
  else process.env.NODE_PATH = NODE_PATH;
  // ES modules ignore these paths. Node 22.15 introduced hooks in the same thread; earlier versions have only the global.
  if (typeof Module.registerHooks === 'function') Module.registerHooks({ resolve });
}

function resolve(specifier, context, next) {
  if (specifier !== 'flint') return next(specifier, context);
  try {
    return next(specifier, context);
  } catch {
    return { url: pathToFileURL(path.join(MODULES, 'flint', 'index.js')).href, format: 'commonjs', shortCircuit: true };
  }
}

async function runBefore() {
  for (let i = before.length - 1; i >= 0; i--) await before[i]();
}

/** A promise only when a hook returns one. */
function runAfter() {
  for (let i = 0; i < after.length; i++) {
    const result = after[i]();
    if (result !== null && typeof result === 'object' && typeof result.then === 'function') return runRest(result, i + 1);
  }
  return undefined;
}

async function runRest(first, from) {
  await first;
  for (let i = from; i < after.length; i++) await after[i]();
}

module.exports = { install, runBefore, runAfter, hasAfter: () => after.length > 0 };
