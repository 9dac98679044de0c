'use strict';
// Functions compiled before the freeze, and none of them run: V8 compiles a function at its first call, which would be one in every clone.

const { describe } = require('./annotate/driver');
const { openCompiler, tolerant } = require('./annotate/natives');
const { Observer } = require('./annotate/observer');
const { userFile } = require('./annotate/targets');

const now = performance.now.bind(performance); // user code may replace the global one

const MOST_MS = 50;
const MOST_FUNCTIONS = 500;
const DEPENDENCY = /[/\\]node_modules[/\\]/;
const SHIM = __dirname;

/**
 * Functions that may be compiled: of user code where there is an `entry`, in the files under `root` without their dependencies, and of the shim.
 * To look for them, V8 forgets what it knows of the objects that functions have met.
 */
class Ahead {
  constructor({ entry, root, shims }) {
    this.natives = null;
    this.users = [];
    this.shims = shims;
    this.note = null; // what kept it from that
    try {
      this.natives = openCompiler();
      if (entry !== undefined) this.look(entry, root);
    } catch (error) {
      this.note = `functions are compiled at their first call (${describe(error)})`;
    }
  }

  look(entry, root) {
    const { users, shims } = find(this.natives, root);
    this.users = inOrder(users, entry);
    this.shims = shims.map(({ f }) => f);
  }

  compileUsers() {
    compile(this.users, this.natives);
  }

  /** After practice, which some versions of V8 optimise less of what was compiled before its first call. */
  compileShim() {
    compile(this.shims, this.natives);
  }
}

function find({ scriptId, position }, root) {
  const observer = new Observer();
  try {
    const [shims, users] = [[], []];
    const home = new Map();
    for (const script of observer.takeScripts()) {
      const file = userFile(script.url, root);
      if (file !== null && !DEPENDENCY.test(file.slice(root.length))) home.set(Number(script.scriptId), users);
      else if (userFile(script.url, SHIM) !== null) home.set(Number(script.scriptId), shims);
    }
    for (const f of observer.liveFunctions()) {
      const script = scriptOf(f, scriptId);
      home.get(script)?.push({ f, script, position: position(f) });
    }
    return { shims, users };
  } finally {
    observer.close();
  }
}

/** The entry, then the others of its file from the last to the first, since bundlers put what they were called for behind what it needs, then those of other files. */
function inOrder(functions, entry) {
  const main = functions.find(({ f }) => f === entry);
  const rank = (one) => (one === main ? 2 : Number(main !== undefined && one.script === main.script));
  functions.sort((a, b) => rank(b) - rank(a) || a.script - b.script || b.position - a.position);
  return functions.map(({ f }) => f);
}

/** Not the functions inside of them, of which there is no object yet. */
function compile(functions, natives) {
  if (natives === null) return;
  const untilMs = now() + MOST_MS;
  tolerant(() => {
    for (const f of functions.slice(0, MOST_FUNCTIONS)) {
      if (now() > untilMs) return;
      natives.prepare(f);
    }
  });
}

function scriptOf(f, scriptId) {
  try {
    return scriptId(f);
  } catch {
    return -1; // a bound or native function
  }
}

module.exports = { Ahead };
