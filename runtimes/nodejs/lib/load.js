'use strict';
// Finds and evaluates the user's code, and finds its entry function.

const fs = require('fs');
const Module = require('module');
const path = require('path');
const vm = require('vm');
const { pathToFileURL } = require('url');

const EXTENSIONS = ['', '.js', '.cjs', '.mjs', '/index.js'];
const ENTRY_FILES = ['index.js', 'index.mjs', 'index.cjs', 'main.js', 'main.mjs'];
const ESM_SYNTAX = /Cannot use import statement|Unexpected token 'export'|Cannot use 'import\.meta'|await is only valid/;
/** What may be ES module syntax: at the beginning of a line, or within the one line of a bundle. */
const MAYBE_ESM = new RegExp([
  /^\s*(?:import\b(?!\s*\()|export\b)/,
  /\bexport\s*(?:[{*]|(?:default|async|class|const|function|let|var)\b)/,
  /\bimport\s*(?:["'{*]|[\p{ID_Continue}$]+(?:\s*,|\s+from\b))/,
  /\bimport\.meta\b/,
  /^\s*(?:const .*)?\bawait\b/,
].map(({ source }) => source).join('|'), 'mu');
const LOCAL = 'flint:local';
/** The parameters of Node.js's wrapper around a CommonJS module. */
const WRAPPED = ['exports', 'require', 'module', '__filename', '__dirname'];

let loadedByThread = null;
const written = new WeakMap(); // the user's function of each bound one

/**
 * Loads the function and returns `{ entry, file }`. Returns a promise only for ES modules, so that CommonJS code is ready without a turn of
 * the event loop.
 */
function load(code, main = 'main') {
  if (typeof code !== 'string' || code === '') throw new Error('Missing main/no code to execute.');
  const { file, name } = locate(code, main);
  process.chdir(path.dirname(file));
  if (isModuleFile(file)) return pickLater(import(pathToFileURL(file)), file, name);
  const source = fs.readFileSync(file, 'utf8').replace(/^\uFEFF/, '');
  if (usesModuleSyntax(source)) return pickLater(importUnmarked(file), file, name);
  const { exports, local } = evaluate(file, source, name);
  return { entry: pick(exports, local, name), file };
}

function pickLater(imported, file, name) {
  return imported.then((exports) => ({ entry: pick(exports, undefined, name), file }), (error) => {
    throw locateSyntaxError(error, file);
  });
}

/**
 * Adds the place to an ES module's syntax error, which lacks it: Node reports it when asked to check the source. It reads the source from
 * stdin, since it would not check an unmarked file as a module.
 */
function locateSyntaxError(error, file) {
  if (!(error instanceof SyntaxError)) return error;
  const { spawnSync } = require('child_process'); // costs milliseconds that a successful start must not pay
  const { stderr } = spawnSync(process.execPath, ['--check', '--input-type=module'], { input: fs.readFileSync(file), encoding: 'utf8', timeout: 5000 });
  if (stderr && stderr.includes('SyntaxError')) error.stack = stderr.replace('[stdin]', () => file).trim();
  return error;
}

/** The file and the name in it: for a directory, `main` may be `file.function`. */
function locate(code, main) {
  if (!fs.existsSync(code)) throw new Error(`The code ${code} does not exist.`);
  if (!fs.statSync(code).isDirectory()) return { file: code, name: main };
  const dot = main.lastIndexOf('.');
  if (dot > 0) {
    const file = firstFile(EXTENSIONS.map((extension) => path.join(code, main.slice(0, dot) + extension)));
    if (file !== undefined) return { file, name: main.slice(dot + 1) };
  }
  const manifest = readManifest(code);
  if (manifest && typeof manifest.main === 'string') {
    const file = firstFile(EXTENSIONS.map((extension) => path.join(code, manifest.main + extension)));
    if (file !== undefined) return { file, name: main };
  }
  const file = firstFile(ENTRY_FILES.map((name) => path.join(code, name)));
  if (file === undefined) {
    throw new Error(manifest && typeof manifest.main === 'string'
      ? `The code has no file ${manifest.main}, which is "main" in its package.json: is it built, and packed?`
      : 'A function in a directory needs a package.json with "main", or an index.js.');
  }
  return { file, name: main };
}

function firstFile(candidates) {
  return candidates.find((candidate) => fs.statSync(candidate, { throwIfNoEntry: false })?.isFile());
}

function readManifest(directory) {
  try {
    return JSON.parse(fs.readFileSync(path.join(directory, 'package.json'), 'utf8'));
  } catch (error) {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined;
    throw new Error(`${path.join(directory, 'package.json')}: ${error.message}`);
  }
}

/** Whether Node itself treats the file as an ES module. */
function isModuleFile(file) {
  const extension = path.extname(file);
  if (extension === '.mjs') return true;
  if (extension === '.cjs') return false;
  for (let directory = path.dirname(file); ; directory = path.dirname(directory)) {
    const manifest = readManifest(directory);
    if (manifest) return manifest.type === 'module';
    if (directory === path.dirname(directory)) return false;
  }
}

/**
 * Evaluates a CommonJS file. As in OpenWhisk the entry need not be exported: a line appended to the source exports the top-level binding of
 * that name, which keeps the source's line numbers.
 */
function evaluate(file, source, name) {
  const handOut = isBinding(name)
    ? `\n;module[${JSON.stringify(LOCAL)}] = typeof ${name} === "undefined" ? undefined : ${name};`
    : '';
  const module = new Module(file, null);
  module.filename = file;
  module.paths = Module._nodeModulePaths(path.dirname(file));
  Module.createRequire(file).cache[file] = module;
  // With a third parameter Node would otherwise load what looks like an ES module by require().
  const format = Module.prototype._compile.length > 2 ? ['commonjs'] : [];
  try {
    module._compile(source + handOut, file, ...format);
  } catch (error) {
    // The error of an unclosed bracket would point to the appended line, so the source is compiled without it.
    if (error instanceof SyntaxError && handOut !== '') vm.compileFunction(source, WRAPPED, { filename: file });
    throw error;
  }
  module.loaded = true;
  return { exports: module.exports, local: module[LOCAL] };
}

/** Whether a variable can have this name: `default` can be exported but is not a variable. */
function isBinding(name) {
  if (!/^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(name)) return false;
  try {
    vm.compileFunction(`typeof ${name} === "undefined" ? undefined : ${name};`, WRAPPED);
    return true;
  } catch {
    return false;
  }
}

/**
 * Whether the source cannot be CommonJS. Compiles it a second time only if something looks like ES module syntax, because Node would print a
 * warning about a source that it cannot compile. Without the wrapper's parameters: a module may have variables of these names.
 */
function usesModuleSyntax(source) {
  if (!MAYBE_ESM.test(source)) return false;
  try {
    vm.compileFunction(source);
    return false;
  } catch (error) {
    return error instanceof SyntaxError && ESM_SYNTAX.test(error.message);
  }
}

/** Imports a `.js` file with ES module syntax that is not marked as one. */
function importUnmarked(file) {
  const [major, minor] = process.versions.node.split('.').map(Number);
  const detects = major > 22 || (major === 22 && minor >= 7) || (major === 20 && minor >= 19);
  if (detects) return import(pathToFileURL(file));
  // For such releases Flint gives a single-file function this second name.
  const marked = file.replace(/\.js$/, '.mjs');
  if (isSameFile(file, marked)) return import(pathToFileURL(marked));
  return Module.register === undefined ? import(pathToFileURL(file)) : importMarked(file);
}

function isSameFile(one, other) {
  const [a, b] = [one, other].map((file) => fs.statSync(file, { throwIfNoEntry: false }));
  return one !== other && a !== undefined && b !== undefined && a.ino === b.ino && a.dev === b.dev;
}

/** Imports a file as an ES module whatever its name, by a loader hook (Node ≥ 18.19), which Node runs in a thread. */
function importMarked(file) {
  loadedByThread = file;
  const url = pathToFileURL(file).href;
  const hook = `export async function load(url, context, next) {
    if (url !== ${JSON.stringify(`${url}?module`)}) return next(url, context);
    const { readFile } = await import('node:fs/promises');
    return { format: 'module', shortCircuit: true, source: await readFile(new URL(url)) };
  }`;
  Module.register(`data:text/javascript,${encodeURIComponent(hook)}`);
  return import(`${url}?module`);
}

/** Finds the entry function among the exports or, in a plain source, the definitions. */
function pick(exports, local, name) {
  const owners = [exports, exports && exports.default, exports && exports.default && exports.default.default];
  for (const owner of owners) {
    const found = follow(owner, name);
    if (found !== undefined) return found;
  }
  if (typeof local === 'function') return local;
  if (name === 'main' || name === 'handler' || name === 'default') {
    for (const owner of owners) if (typeof owner === 'function') return owner;
    for (const owner of owners) {
      const found = follow(owner, name === 'main' ? 'handler' : 'main');
      if (found !== undefined) return found;
    }
  }
  const names = exports === null || typeof exports !== 'object' ? [] : Object.keys(exports);
  throw new Error(`Action entrypoint '${name}' is not a function. ${names.length === 0 ? 'Nothing is exported.' : `Exported: ${names.join(', ')}.`}`);
}

/** The function `a.b.c` below `owner`, bound to its parent object; undefined if there is none. */
function follow(owner, name) {
  let parent;
  let value = owner;
  for (const part of name.split('.')) {
    if (value === null || value === undefined) return undefined;
    parent = value;
    value = value[part];
  }
  if (typeof value !== 'function') return undefined;
  const bound = value.bind(parent);
  written.set(bound, value);
  return bound;
}

/** The function that the user wrote, for an entry. */
function asWritten(entry) {
  return written.get(entry) || entry;
}

/** An error's stack without the frames of the shim and of Node. */
function userStack(error) {
  const stack = error && error.stack ? String(error.stack) : String(error);
  const shim = path.join(__dirname, '..');
  return stack.split('\n').filter((line) => !/^\s+at /.test(line) || !(line.includes(shim) || line.includes('node:'))).join('\n');
}

/** The file that needed a loader thread, which stays; null if there is none. */
function fileLoadedByThread() {
  return loadedByThread;
}

module.exports = { asWritten, fileLoadedByThread, importMarked, load, userStack };
