'use strict';
// Where the entry function may be, and in which form.

const assert = require('assert');
const fs = require('fs');
const Module = require('module');
const path = require('path');
const test = require('node:test');
const { Kind } = require('../lib/frame');
const { importMarked } = require('../lib/load');
const { Peer, directory, started } = require('./peer');

const forms = {
  'exports.main': ['exports.main = (params) => ({ got: params.x });'],
  'module.exports = function': ['module.exports = (params) => ({ got: params.x });'],
  'exports.handler': ['exports.handler = async (event, context) => ({ got: context.activationId && event.x });'],
  'an entry of another name': ['exports.twice = (params) => ({ got: params.x });', { main: 'twice' }],
  'an entry in an object': ['exports.math = { factor: 1, twice(params) { return { got: params.x * this.factor }; } };', { main: 'math.twice' }],
  'a bare function': ['function main(params) { return { got: params.x }; } // no newline at the end'],
  'a bare constant': ['const main = ({ x }) => ({ got: x });'],
  'a bare function behind a shebang': ['#!/usr/bin/env node\nfunction main(params) { return { got: params.x }; }'],
  'a bare function in strict mode that uses require': ['"use strict";\nconst path = require("path");\nfunction main(params) { return { got: path.sep && params.x }; }'],
  'exports.default by its name': ['exports.default = (params) => ({ got: params.x });', { main: 'default' }],
  'an entry whose name is a keyword': ['exports.delete = (params) => ({ got: params.x });', { main: 'delete' }],
  'ESM export function': ['export function main(params) { return { got: params.x }; }', { name: 'index.mjs' }],
  'ESM export default': ['export default (params) => ({ got: params.x });', { name: 'index.mjs' }],
  'ESM default object': ['export default { main(params) { return { got: params.x }; } };', { name: 'index.mjs' }],
  'ESM with top-level await': ['const one = await Promise.resolve(1);\nexport const handler = (event) => ({ got: one * event.x });', { name: 'index.mjs' }],
  'ESM syntax in a .js file': ['import path from "path";\nexport const main = (params) => ({ got: path.sep && params.x });'],
  'ESM in one line': ['var a=1;function m(p){return{got:a*p.x}}export{m as main};'],
  'ESM in one line with imports': ['/*! bundle */import{sep as s}from"path";var m=p=>({got:s&&p.x});export default m;'],
  'ESM with variables that CommonJS has': ['import { createRequire } from "module";\nconst require = createRequire(import.meta.url);\nconst __dirname = import.meta.url && "/";\n'
    + 'export const main = (params) => ({ got: require("path").sep === __dirname && params.x });'],
  'ESM that declares such a variable first': ['const __dirname = new URL(".", import.meta.url).pathname;\nexport const main = (params) => ({ got: __dirname && params.x });'],
  'CommonJS that speaks of modules': ['const text = "import a from b; export default a"; // export { a }, import.meta\nexports.main = (params) => ({ got: text && params.x });'],
  'dynamic import in CommonJS': ['exports.main = async (params) => ({ got: (await import("path")).sep && params.x });'],
};

for (const [name, [source, options]] of Object.entries(forms)) {
  test(name, async (t) => {
    const peer = await started(t, source, options);
    assert.deepStrictEqual((await peer.invoke({ x: 3 })).result, { got: 3 });
    await peer.stop();
    assert.strictEqual(peer.stderr, '');
  });
}

test('ESM syntax in a .js file where Node does not detect it', { skip: Module.register === undefined }, async (t) => {
  const file = path.join(directory(t, { 'index.js': 'import { ok } from "./other.mjs";\nexport const main = () => ok;', 'other.mjs': 'export const ok = 1;' }), 'index.js');
  assert.strictEqual((await importMarked(file)).main(), 1);
});

test('a single file that Flint gives two names is the ES module that it looks like', async (t) => {
  const folder = directory(t, { 'index.js': 'export const main = () => ({ url: import.meta.url.slice(-4) });' });
  fs.linkSync(path.join(folder, 'index.js'), path.join(folder, 'index.mjs'));
  const peer = new Peer();
  t.after(() => peer.stop());
  await peer.start(path.join(folder, 'index.js'), 'main');
  assert.match((await peer.invoke({})).result.url, /js$/);
});

const packages = {
  'package.json main': [{ 'package.json': '{"main":"lib/entry.js"}', 'lib/entry.js': 'exports.main = () => ({ ok: 1 });' }],
  'package.json main without suffix': [{ 'package.json': '{"main":"lib/entry"}', 'lib/entry.js': 'exports.main = () => ({ ok: 1 });' }],
  'package.json type module': [{ 'package.json': '{"type":"module"}', 'index.js': 'export const main = () => ({ ok: 1 });' }],
  'index.js': [{ 'index.js': 'const { ok } = require("./other");\nfunction main() { return { ok }; }', 'other.js': 'exports.ok = 1;' }],
  'index.mjs': [{ 'index.mjs': 'import { ok } from "./other.mjs";\nexport const main = () => ({ ok });', 'other.mjs': 'export const ok = 1;' }],
  'node_modules beside the code': [{ 'index.js': 'exports.main = () => ({ ok: require("dep") });', 'node_modules/dep/index.js': 'module.exports = 1;' }],
  'file.function': [{ 'math.js': 'exports.twice = () => ({ ok: 1 });' }, 'math.twice'],
  'folder/file.function': [{ 'lib/math.js': 'exports.twice = () => ({ ok: 1 });' }, 'lib/math.twice'],
  'files beside the code': [{ 'index.js': 'exports.main = () => JSON.parse(require("fs").readFileSync("data.json"));', 'data.json': '{"ok":1}' }],
  'a module that requires its entry': [{ 'index.js': 'exports.one = 1;\nexports.main = require("./other").main;', 'other.js': 'const { one } = require("./index");\nexports.main = () => ({ ok: one });' }],
};

for (const [name, [files, main]] of Object.entries(packages)) {
  test(`directory: ${name}`, async (t) => {
    const peer = new Peer();
    t.after(() => peer.stop());
    await peer.start(directory(t, files), main || 'main');
    assert.deepStrictEqual((await peer.invoke()).result, { ok: 1 });
  });
}

const failures = {
  'no such entry': [{ 'index.js': 'exports.other = () => {};' }, /Action entrypoint 'main' is not a function.*other/],
  'an entry that is no function': [{ 'index.js': 'exports.main = 5;' }, /Action entrypoint 'main' is not a function/],
  'a throw at load': [{ 'index.js': '\n\nthrow new TypeError("bad start");' }, /TypeError: bad start\n +at .*index\.js:3:7/],
  'a syntax error': [{ 'index.js': 'exports.main = 1;\nconst = 2;' }, /index\.js:2\n[^]*SyntaxError/],
  'an unclosed bracket': [{ 'index.js': 'function main() {\n  return {\n' }, /^(?![^]*flint:local)[^]*index\.js:3\n[^]*SyntaxError/],
  'a syntax error in an ES module': [{ 'index.mjs': 'export const main = 1;\nconst = 2;' }, /index\.mjs:2\n[^]*SyntaxError/],
  'a syntax error in an ES module that nothing marks': [{ 'index.js': 'export const main = 1;\nconst = 2;' }, /index\.m?js:2\n[^]*SyntaxError/],
  'a module that is missing': [{ 'index.js': 'require("absent-module");' }, /Cannot find module 'absent-module'/],
  'a main that is not there': [{ 'package.json': '{"main":"dist/index.js"}', 'index.ts': '' }, /no file dist\/index\.js, which is "main" in its package\.json/],
  'a broken package.json': [{ 'package.json': '{', 'index.js': '' }, /package\.json: /],
  'an empty directory': [{ 'readme.txt': '' }, /needs a package\.json with "main", or an index\.js/],
  'a rejection at the top level of an ES module': [{ 'index.mjs': 'await Promise.reject(new Error("not up"));' }, /not up/],
};

for (const [name, [files, message]] of Object.entries(failures)) {
  test(`does not load: ${name}`, async (t) => {
    const peer = new Peer();
    await peer.init(directory(t, files), 'main');
    const error = await peer.nextJson(Kind.ERROR);
    assert.strictEqual(error.kind, 'developer');
    assert.match(error.message, /^Initialization has failed due to: /);
    assert.match(error.message, message);
    assert.strictEqual(await peer.exited, 1);
    assert.doesNotMatch(error.message, /lib\/load\.js/);
  });
}
