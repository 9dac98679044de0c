'use strict';
// Replaces Math.random in the contexts that `vm` makes: V8 seeds it from a generator that all clones share.

const vm = require('vm');
const { random } = require('./random');

// Runs inside the context and takes only numbers, so that it gives no access to this realm. Returns the generator and a function that seeds
// it.
const SOURCE = `(() => {
  let a = 1, b = 1, c = 1, d = 1;
  const { imul } = Math;
  function step() {
    const product = imul(b, 5), e = c ^ a, f = d ^ b;
    const result = imul((product << 7) | (product >>> 25), 9);
    c = e ^ (b << 9); a ^= f; b ^= e; d = (f << 11) | (f >>> 21);
    return result;
  }
  Math.random = function random() {
    const high = step() >>> 5;
    return (high * 67108864 + (step() >>> 6)) * 2 ** -53;
  };
  return [Math.random, (w, x, y, z) => { a = w | 1; b = x; c = y; d = z; }];
})()`;

const { createContext } = vm;
const seeders = new WeakMap(); // by generator, so that each lives as long as its context
let generators = [];
let script;

function install() {
  vm.createContext = (...values) => {
    const isObject = values[0] !== null && (typeof values[0] === 'object' || typeof values[0] === 'function');
    const known = isObject && vm.isContext(values[0]);
    // A `Math` that the caller passes in hides the context's own, and must not be changed.
    const hidden = isObject && 'Math' in values[0];
    const context = createContext(...values);
    if (!known && !hidden) seedContext(context);
    return context;
  };
  vm.runInNewContext = (code, sandbox, options) => {
    const settings = typeof options === 'string' ? { filename: options } : { ...options };
    return vm.runInContext(code, vm.createContext(sandbox, contextOptions(settings)), settings);
  };
  vm.Script.prototype.runInNewContext = function runInNewContext(sandbox, options) {
    return this.runInContext(vm.createContext(sandbox, contextOptions({ ...options })), options);
  };
}

function contextOptions({ contextName, contextOrigin, contextCodeGeneration, microtaskMode }) {
  const found = { name: contextName, origin: contextOrigin, codeGeneration: contextCodeGeneration, microtaskMode };
  for (const name of Object.keys(found)) if (found[name] === undefined) delete found[name];
  return found;
}

function seedContext(context) {
  if (script === undefined) script = new vm.Script(SOURCE, { filename: 'flint:random' });
  const [generator, seeder] = script.runInContext(context);
  seed(seeder);
  seeders.set(generator, seeder);
  generators.push(new WeakRef(generator));
  if (generators.length % 64 === 0) generators = generators.filter((weak) => weak.deref() !== undefined);
}

function seed(seeder) {
  seeder(word(), word(), word(), word());
}

function word() {
  return (random() * 2 ** 32) | 0;
}

function renew() {
  for (const weak of generators) {
    const generator = weak.deref();
    if (generator !== undefined) seed(seeders.get(generator));
  }
}

module.exports = { install, renew };
