'use strict';
// The annotator on whole functions, each in a process of its own: V8's flags and code are the process's.

const assert = require('assert');
const { execFile } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const test = require('node:test');

const FIXTURES = path.join(__dirname, 'annotate-fixtures');
const ZYGOTE = ['--single-threaded', '--v8-pool-size=0'];

/** Runs the annotator on a fixture. V8 must not have printed anything of what it did meanwhile. */
function annotated(fixture, options, flags = ZYGOTE) {
  return new Promise((resolve, reject) => {
    const parameters = [...flags, path.join(FIXTURES, 'run.js'), path.resolve(FIXTURES, 'functions', fixture), JSON.stringify(options)];
    execFile(process.execPath, parameters, (error, stdout, stderr) => {
      if (error) reject(error);
      else if (stderr !== '' || !stdout.startsWith('annotated\n')) reject(new Error(`V8 printed: ${stderr}${stdout}`));
      else resolve(JSON.parse(stdout.slice(stdout.lastIndexOf('\n'))));
    });
  });
}

function names({ report }) {
  return report.functions.map(({ name }) => name).sort();
}

/** No user function is left behind, nothing of the annotator stays, and V8 has nothing to do in the calls that follow. */
function assertReady(outcome) {
  const { report, later } = outcome;
  const behind = report.functions.filter(({ tier }) => tier !== 'turbofan');
  assert.deepStrictEqual(behind, [], report.notes.join('\n'));
  assert.strictEqual(report.optimised, report.reached);
  assert.deepStrictEqual(later, { first: [], following: [] });
  assertGone(outcome);
}

function assertGone({ tasks, hasNatives }) {
  assert.strictEqual(tasks, 0, 'threads stayed');
  assert.strictEqual(hasNatives, false, 'user code can use natives');
}

const ready = {
  fact: ['fact.js', [{ n: 2688834647 }], ['', 'exports.main', 'factors']],
  'matrix multiplication': ['matrix.js', [{ n: 40 }], ['exports.main', 'make', 'multiply']],
  classes: ['classes.js', [{ sides: [2, 3] }, { sides: [4] }]],
  'awaits in an ES module': ['awaits.mjs', [{ n: 5 }], ['', 'delay', 'main', 'numbers', 'total', 'twice']],
  'events of several types': ['events.js', [
    { kind: 'sum', value: 1 }, { kind: 'text', value: 'abc' }, { kind: 'list', value: [1, 2, 3] }, { kind: 'other', value: { b: 1, amount: 3, a: 2 } },
  ], ['', '', 'add', 'exports.main', 'size']],
  'errors that the function handles': ['handles-errors.js', [{ numbers: [4, -1, 9] }, { numbers: [1] }], ['attempt', 'check', 'exports.main']],
};

for (const [title, [fixture, requests, expected]] of Object.entries(ready)) {
  test(`${title}: everything reached is optimised and the next calls compile nothing`, async () => {
    const outcome = await annotated(fixture, { requests });
    assertReady(outcome);
    if (expected) assert.deepStrictEqual(names(outcome).map((name) => (name === '(anonymous)' ? '' : name)).sort(), expected);
  });
}

test('where V8\'s record cannot be had, the functions\' status alone is followed', async () => {
  const { report, later } = await annotated('classes.js', { requests: [{ sides: [2, 3] }] }, [...ZYGOTE, '--trace-uncaught']);
  assert.strictEqual(later, null);
  const tiers = new Map(report.functions.map(({ name, tier }) => [name, tier]));
  assert.deepStrictEqual(['exports.main', 'describe', 'Square'].map((name) => tiers.get(name)), ['turbofan', 'turbofan', 'turbofan']);
  assert.strictEqual(tiers.get('<instance_members_initializer>'), 'interpreted', 'nothing proves more');
  assert.ok(report.notes.some((note) => note.startsWith('not known, for want of V8\'s record')), report.notes.join('\n'));
});

test('without an inspector the calls alone are made', async (t) => {
  const root = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'flint-annotate-')));
  t.after(() => fs.rmSync(root, { recursive: true }));
  const preload = path.join(root, 'preload.js');
  fs.writeFileSync(preload, 'require("inspector").Session = class { constructor() { throw new Error("no inspector"); } };');
  const { report } = await annotated('events.js', { requests: [{ kind: 'sum', value: 1 }], calls: 30 }, [...ZYGOTE, '--require', preload]);
  assert.deepStrictEqual([report.warmupCalls, report.reached], [30, 0]);
  assert.deepStrictEqual(report.notes, ['functions cannot be looked at (no inspector): warmed up by calls alone']);
});

test('with V8 compiling in the background', async () => {
  const { report, later, ...state } = await annotated('events.js', { requests: ready['events of several types'][1] }, []);
  assert.deepStrictEqual(report.functions.filter(({ tier }) => tier !== 'turbofan'), [], report.notes.join('\n'));
  assert.deepStrictEqual(later.first, []);
  assertGone(state);
});

test('the report says where a function is, and what was not reached', async () => {
  const { report } = await annotated('classes.js', { requests: [{ sides: [2, 3] }] });
  const find = (name) => report.functions.find((one) => one.name === name);
  assert.deepStrictEqual([find('describe').file, find('describe').line, find('describe').tier], ['classes.js', 20, 'turbofan']);
  assert.ok(find('<instance_members_initializer>'), 'fields are initialised by a function of their own');
  assert.ok(find('get name') && find('set name') && find('largest'), 'accessors and static methods');
  assert.deepStrictEqual(report.notes.filter((note) => note.includes('Shape')), [], 'the constructor is found');
  assert.strictEqual(find('unused'), undefined);
  assert.ok(report.notes.includes('functions of the code that the warm-up did not reach, compiled when they are first called: 1'), report.notes.join('\n'));
});

test('packages of the function are its code', async (t) => {
  const root = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'flint-annotate-')));
  t.after(() => fs.rmSync(root, { recursive: true }));
  const helper = path.join('node_modules', 'helper', 'index.js');
  fs.mkdirSync(path.join(root, path.dirname(helper)), { recursive: true });
  fs.writeFileSync(path.join(root, helper), '\n\nexports.twice = (n) => n * 2;\n');
  fs.writeFileSync(path.join(root, 'index.js'), 'const { twice } = require("helper");\nexports.main = async ({ n }) => ({ n: twice(n) });\n');
  const outcome = await annotated(path.join(root, 'index.js'), { requests: [{ n: 3 }] });
  assertReady(outcome);
  assert.deepStrictEqual(outcome.report.functions.map(({ file, line }) => [file, line]).sort(), [['index.js', 2], [helper, 3]]);
});

test('a request that fails ends the warm-up and is told', async () => {
  const outcome = await annotated('throws.js', { requests: [{ n: 1, most: 5 }], before: 0 });
  assert.strictEqual(outcome.report.warmupCalls, 6);
  assert.ok(outcome.report.notes.includes('warm-up stopped: warm-up request 0 failed: no more'), outcome.report.notes.join('\n'));
  assert.deepStrictEqual(names(outcome), ['exports.main', 'work']);
  assertGone(outcome);
});

test('a request that fails at once', async () => {
  const outcome = await annotated('throws.js', { requests: [{ n: 1, most: 0 }], before: 0 });
  assert.strictEqual(outcome.report.warmupCalls, 1);
  assert.deepStrictEqual(names(outcome), ['exports.main']);
  assertGone(outcome);
});

test('a function slower than the budget is called once', async () => {
  const outcome = await annotated('slow.js', { requests: [{ ms: 300 }], budgetMs: 50, after: 1 });
  assert.strictEqual(outcome.report.warmupCalls, 1);
  assert.deepStrictEqual(names(outcome), ['exports.main']);
  assert.ok(outcome.report.notes.some((note) => note.includes('50 ms')), outcome.report.notes.join('\n'));
  assertGone(outcome);
});

test('no more calls than allowed', async () => {
  const { report } = await annotated('events.js', { requests: ready['events of several types'][1], calls: 10 });
  assert.strictEqual(report.warmupCalls, 10);
  assert.ok(report.notes.some((note) => note.includes('10 calls')), report.notes.join('\n'));
});

test('a call that never ends is left', async () => {
  const outcome = await annotated('hangs.js', { requests: [{ n: 0 }, { n: 1 }], before: 0, budgetMs: 3000, after: 0, calls: 50 });
  assert.strictEqual(outcome.report.warmupCalls, 2);
  assert.ok(outcome.report.notes.some((note) => note.includes('request 1 did not end')), outcome.report.notes.join('\n'));
});

test('optimised code that never holds is told and not made for ever', async () => {
  const { report } = await annotated('unstable.js', { requests: [{}] }, [...ZYGOTE, '--allow-natives-syntax']);
  const left = report.functions.filter(({ tier }) => tier !== 'turbofan');
  assert.deepStrictEqual(left.map(({ name }) => name).sort(), ['again', 'read']);
  assert.deepStrictEqual(report.notes, [
    'left behind: read (unstable.js:6): V8 threw its optimised code away each time',
    'optimised and thrown away again and again, so that calls differ in speed: again (unstable.js:12)',
  ]);
  assert.ok(report.warmupCalls < 2000, 'the calls were not used up');
});

test('a function that V8 refuses is told', async (t) => {
  const root = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'flint-annotate-')));
  t.after(() => fs.rmSync(root, { recursive: true }));
  const file = path.join(root, 'index.js');
  const lines = Array.from({ length: 9000 }, (_, i) => `a = (a + ${i} * b) | 0;`);
  fs.writeFileSync(file, `function huge(a, b) {\n${lines.join('\n')}\nreturn a;\n}\nexports.main = async ({ n }) => ({ n: huge(n, 2) });\n`);
  const { report } = await annotated(file, { requests: [{ n: 3 }], calls: 200 });
  assert.deepStrictEqual(report.functions.map(({ name, tier }) => [name, tier === 'turbofan']), [['huge', false], ['exports.main', true]]);
  assert.ok(report.notes.some((note) => note.startsWith('left behind: huge (index.js:1): V8 refuses')), report.notes.join('\n'));
});

test('nothing to replay', async () => {
  const outcome = await annotated('fact.js', { requests: [], after: 0 });
  assert.strictEqual(outcome.report.warmupCalls, 0);
  assert.strictEqual(outcome.report.reached, 0);
});
