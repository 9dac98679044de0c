'use strict';
// Functions compiled before the freeze, and none of them run: V8 compiles a function at its first call, which would be one in every clone.

const { isProxy } = require('util').types;
const { describe } = require('./annotate/driver');
const { openCompiler, tolerant } = require('./annotate/natives');
const { Observer } = require('./annotate/observer');
const { userFile } = require('./annotate/targets');

const now = performance.now.bind(performance); // user code may replace the global one
const { getOwnPropertyDescriptors, getPrototypeOf, hasOwn, values: valuesOf } = Object; // these too
const { isArray } = Array;
const { Set, Number } = globalThis;

const MOST_MS = 50;
const MOST_FUNCTIONS = 500;
const MOST_VALUES = 5000;
const DEPENDENCY = /[/\\]node_modules[/\\]/;
const SHIM = __dirname;

/**
 * What `user` and `shim`, lists of functions, may reach: user code's in its own file and in others under `root` without their dependencies, and the shim's.
 * Of other files as far as V8 tells of them: not of one whose top level it has forgotten, or has not counted.
 */
class Ahead {
  /** Before garbage is collected, after which V8 no longer tells the files of code that has not been called. */
  constructor({ user, shim, root }) {
    this.natives = null;
    this.found = [];
    this.note = null; // what kept it from that
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

  /** After practice: some versions of V8 optimise less of what was compiled before its first call. */
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

/** The functions of these scripts that can be reached from `roots`, nearest first: by what their files have in scope, as properties and as methods of classes. */
function reachable(roots, scripts, natives, observer) {
  const untilMs = now() + MOST_MS;
  const found = new Set();
  const closed = new Set(scripts); // of which the scope has not been looked at
  const values = new Set(roots); // which is gone through in the order of adding, also of what is added meanwhile
  for (const value of values) {
    if (found.size >= MOST_FUNCTIONS || values.size > MOST_VALUES || now() > untilMs) break;
    if (isProxy(value)) continue; // whose traps are user code
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

/** Adds the functions and objects that `value` has; getters are not called. */
function addParts(value, values) {
  for (const { value: part, get, set } of valuesOf(getOwnPropertyDescriptors(value))) {
    for (const one of [part, get, set]) {
      if (typeof one === 'function' || (typeof one === 'object' && one !== null)) values.add(one);
    }
  }
}

/** Plain objects and prototypes with some properties, unlike what data is in. */
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
