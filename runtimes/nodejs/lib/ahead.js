'use strict';
// Compiles functions before the freeze without running them: V8 compiles a function at its first call, which would happen in every clone.

const { isProxy } = require('util').types;
const { describe } = require('./annotate/driver');
const { openCompiler, tolerant } = require('./annotate/natives');
const { Observer } = require('./annotate/observer');
const { userFile } = require('./annotate/targets');

const now = performance.now.bind(performance); // user code may replace the global one
const { getOwnPropertyDescriptors, getPrototypeOf, hasOwn, values: valuesOf } = Object; // user code may replace these too
const { isArray } = Array;
const { Set, Number } = globalThis;

const MOST_MS = 50;
const MOST_FUNCTIONS = 500;
const MOST_VALUES = 5000;
const DEPENDENCY = /[/\\]node_modules[/\\]/;
const SHIM = __dirname;

/**
 * Compiles the functions that `user` and `shim`, lists of functions, can reach: of the user's code those in the function's own file and in
 * other files under `root` except dependencies, and the shim's own. Other files are covered as far as V8 reports them: it omits a file
 * whose top level it has dropped, or has not counted.
 */
class Ahead {
  /** Must be called before a garbage collection, after which V8 no longer reports the files of functions that were never called. */
  constructor({ user, shim, root }) {
    this.natives = null;
    this.found = [];
    this.note = null; // why nothing was compiled, if so
    let observer;
    try {
      this.natives = openCompiler();
      observer = new Observer();
      const files = observer.takeScripts().map(({ scriptId, url }) => [Number(scriptId), url]);
      const scripts = (isOurs) => new Set(files.filter(([, url]) => isOurs(url)).map(([id]) => id));
      const users = scripts((url) => isUsers(userFile(url, root), root));
      for (const f of user) users.add(scriptOf(f, this.natives));
      const shims = scripts((url) => userFile(url, SHIM) !== null);
      this.found = [...reachable(user, users, this.natives, observer), ...reachable(shim, shims, this.natives, observer)];
    } catch (error) {
      this.note = `functions are compiled at their first call (${describe(error)})`;
    } finally {
      if (observer !== undefined) observer.close();
    }
  }

  /** Must be called after the rehearsal: some versions of V8 optimise code less if it was compiled before its first call. */
  compile() {
    tolerant(() => {
      for (const f of this.found) {
        try {
          this.natives.prepare(f);
        } catch {
          // at its first call, then
        }
      }
    });
  }
}

function isUsers(file, root) {
  return file !== null && !DEPENDENCY.test(file.slice(root.length));
}

/**
 * The functions of these scripts that are reachable from `roots`, nearest first: through the scopes of their files, properties and methods
 * of classes.
 */
function reachable(roots, scripts, natives, observer) {
  const untilMs = now() + MOST_MS;
  const found = new Set();
  const closed = new Set(scripts); // scripts whose scope has not been read yet
  const values = new Set(roots); // iterated in insertion order, including values added meanwhile
  for (const value of values) {
    if (found.size >= MOST_FUNCTIONS || values.size > MOST_VALUES || now() > untilMs) break;
    if (isProxy(value)) continue; // its traps are user code
    if (typeof value === 'function') {
      const script = scriptOf(value, natives);
      if (!scripts.has(script)) continue;
      found.add(value);
      if (closed.delete(script)) for (const scope of observer.scopes(value)) addParts(scope, values);
    } else if (!isSmall(value, natives)) {
      continue;
    }
    addParts(value, values);
  }
  return found;
}

/** Adds the functions and objects that `value` has as properties; does not call getters. */
function addParts(value, values) {
  for (const { value: part, get, set } of valuesOf(getOwnPropertyDescriptors(value))) {
    for (const one of [part, get, set]) {
      if (typeof one === 'function' || (typeof one === 'object' && one !== null)) values.add(one);
    }
  }
}

/** Whether it is a plain object or a prototype with few properties, rather than a container of data. */
function isSmall(value, { isFast }) {
  const parent = getPrototypeOf(value);
  if (isProxy(parent)) return false;
  const isPlain = parent === null || getPrototypeOf(parent) === null || hasOwn(value, 'constructor');
  return isPlain && !isArray(value) && isFast(value) && !hasOwn(value, '0');
}

function scriptOf(f, { scriptId }) {
  try {
    return scriptId(f);
  } catch {
    return -1; // a bound or native function
  }
}

module.exports = { Ahead };
