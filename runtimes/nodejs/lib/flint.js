'use strict';
// The module `flint` of user code: what it wants done around a snapshot. Without snapshots the hooks are kept and never run.

const Module = require('module');

const before = [];
const after = [];

function register(hooks, hook) {
  if (typeof hook !== 'function') throw new TypeError('A snapshot hook must be a function.');
  hooks.push(hook);
}

const flint = Object.freeze({
  /** `hook` runs once, before the process is frozen; may be async. The last registered runs first. */
  beforeSnapshot(hook) { register(before, hook); },
  /** `hook` runs in every clone before its first call; may be async. The first registered runs first. */
  afterRestore(hook) { register(after, hook); },
});

/** Makes `require('flint')`, `import 'flint'` and the global `flint` work, unless the function brings a package of that name. */
function install() {
  Object.defineProperty(globalThis, 'flint', { value: flint, configurable: true, writable: true, enumerable: false });
  const load = Module._load;
  Module._load = function (request, parent, isMain) {
    if (request !== 'flint') return load.call(this, request, parent, isMain);
    try {
      return load.call(this, request, parent, isMain);
    } catch (error) {
      if (error.code === 'MODULE_NOT_FOUND') return flint;
      throw error;
    }
  };
  // Without this (before Node 22.15) an ES module takes the global.
  if (typeof Module.registerHooks === 'function') {
    Module.registerHooks({
      resolve(specifier, context, next) {
        if (specifier !== 'flint') return next(specifier, context);
        try {
          return next(specifier, context);
        } catch {
          return { url: MODULE_URL, shortCircuit: true };
        }
      },
    });
  }
}

const MODULE_URL = `data:text/javascript,${encodeURIComponent('export default globalThis.flint; export const { beforeSnapshot, afterRestore } = globalThis.flint;')}`;

async function runBefore() {
  for (const hook of before.reverse()) await hook();
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
