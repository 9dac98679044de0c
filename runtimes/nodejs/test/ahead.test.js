'use strict';
// What is found to be compiled before the freeze; that clones do not compile it again is in test_clones.py.

const assert = require('assert');
const path = require('path');
const test = require('node:test');
const { Ahead } = require('../lib/ahead');
const { directory } = require('./peer');

function found(t, files) {
  const root = directory(t, files);
  const { main, ran } = require(path.join(root, 'index.js'));
  const ahead = new Ahead({ user: [main], shim: [], root });
  ahead.compile();
  assert.strictEqual(ahead.note, null);
  assert.strictEqual(ran === undefined ? 0 : ran(), 0, 'user code has run');
  return ahead.found.map((f) => f.name);
}

test('a file with much at its top level, of which V8 does not tell by itself', (t) => {
  const lines = Array.from({ length: 200 }, (_, i) => `exports.f${i} = function () { return ${i}; };`);
  const names = found(t, { 'index.js': `function helper() {}\n${lines.join('\n')}\nexports.main = function main() { return helper() || exports.f1(); };` });
  assert.deepStrictEqual(names.slice(0, 2), ['main', 'helper']);
});

test('methods, tables and other files, but no dependencies', (t) => {
  const names = found(t, {
    'index.js': `
      const other = require('./other');
      const dependency = require('dependency');
      class Thing { method() {} static make() {} get one() { return 1; } }
      const table = { entry() {} };
      exports.main = function main() { return [other, dependency, Thing, table]; };`,
    'other.js': 'exports.other = function other() {};',
    'node_modules/dependency/index.js': 'exports.dependency = function dependency() {};',
  });
  assert.deepStrictEqual(names.sort(), ['Thing', 'entry', 'get one', 'main', 'make', 'method', 'other']);
});

test('what would run user code, or take long, is left alone', (t) => {
  const names = found(t, {
    'index.js': `
      let ran = 0;
      const count = () => { ran += 1; return null; };
      const proxy = new Proxy({}, new Proxy({}, { get: count }));
      const child = Object.create(new Proxy({}, { getPrototypeOf: count }));
      const getters = { get one() { return count(); } };
      const large = Object.fromEntries(Array.from({ length: 1e5 }, (_, i) => ['k' + i, count]));
      exports.ran = () => ran;
      exports.main = function main() { return [proxy, child, getters, large, helper()]; };
      function helper() {}`,
  });
  assert.ok(names.includes('main') && names.includes('helper'), names.join());
});
