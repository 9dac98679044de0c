'use strict';
const assert = require('assert');
const { execFileSync } = require('child_process');
const test = require('node:test');
const { Worker } = require('worker_threads');
const { CallEnvironment } = require('../lib/environment');

const environment = new CallEnvironment();
const ID = '__OW_ACTIVATION_ID';

test('what a call sets is there in every way to look, until the next call', () => {
  environment.apply({ activation: 'a1', deadline: 17, apiKey: 'u:k' });
  assert.strictEqual(process.env[ID], 'a1');
  assert.strictEqual(process.env.__OW_DEADLINE, '17');
  assert.ok(ID in process.env && Object.hasOwn(process.env, ID));
  assert.strictEqual({ ...process.env }[ID], 'a1');
  assert.strictEqual(Object.keys(process.env).filter((name) => name === ID).length, 1);
  assert.match(execFileSync('env').toString(), /^__OW_ACTIVATION_ID=a1$/m);
  environment.apply({});
  for (const name of [ID, '__OW_DEADLINE', '__OW_API_KEY']) assert.ok(!(name in process.env), name);
  assert.ok(!Object.keys(process.env).includes(ID));
});

test('user code may change and delete it for the rest of its call', () => {
  environment.apply({ activation: 'a1', deadline: 17 });
  process.env[ID] = 5;
  assert.strictEqual(process.env[ID], '5');
  delete process.env.__OW_DEADLINE;
  assert.strictEqual(process.env.__OW_DEADLINE, undefined);
  assert.throws(() => Object.defineProperty(process.env, ID, { get: () => 'x' }), { code: 'ERR_INVALID_OBJECT_DEFINE_PROPERTY' });
  Object.defineProperty(process.env, ID, { value: '6', configurable: true, writable: true, enumerable: true });
  assert.strictEqual(process.env[ID], '6');
  environment.apply({ activation: 'a2', deadline: 18 });
  assert.deepStrictEqual([process.env[ID], process.env.__OW_DEADLINE], ['a2', '18']);
});

test('also what is the same in every call', () => {
  const head = { apiKey: 'u:k', apiHost: 'http://h' };
  const found = () => [process.env.__OW_API_KEY, process.env.__OW_API_HOST];
  for (const change of [() => { delete process.env.__OW_API_KEY; }, () => { process.env.__OW_API_HOST = 'mine'; },
    () => Object.defineProperty(process.env, '__OW_API_KEY', { value: 'mine', configurable: true, writable: true, enumerable: true })]) {
    environment.apply(head);
    assert.deepStrictEqual(found(), ['u:k', 'http://h']);
    change();
  }
  environment.apply({});
  process.env.__OW_API_KEY = 'mine';
  environment.apply({});
  assert.deepStrictEqual(found(), [undefined, undefined]);
});

test('the rest of the environment is as ever', async () => {
  process.env.FLINT_TEST = 7;
  assert.strictEqual(process.env.FLINT_TEST, '7');
  process.env.TZ = 'Asia/Tokyo'; // Node.js acts on this one
  assert.strictEqual(new Date(0).getHours(), 9);
  const worker = new Worker('require("worker_threads").parentPort.postMessage(process.env.FLINT_TEST)', { eval: true });
  assert.strictEqual(await new Promise((resolve) => { worker.once('message', resolve); }), '7');
  delete process.env.FLINT_TEST;
  assert.ok(!('FLINT_TEST' in process.env));
  assert.throws(() => { process.env.FLINT_TEST = Symbol('no string'); }, TypeError);
});

test('a copy of it can be cloned, and a worker may have it as its own', async () => {
  environment.apply({ activation: 'a1' });
  assert.throws(() => structuredClone(process.env), { name: 'DataCloneError' }); // see the README
  assert.strictEqual(structuredClone({ ...process.env })[ID], 'a1');
  const source = 'const { parentPort, workerData } = require("worker_threads"); parentPort.postMessage([process.env, workerData.env].map((env) => env.__OW_ACTIVATION_ID))';
  const worker = new Worker(source, { eval: true, env: process.env, workerData: { env: { ...process.env } } });
  assert.deepStrictEqual(await new Promise((resolve) => { worker.once('message', resolve); }), ['a1', 'a1']);
});

test('a call leaves nothing in memory', () => {
  const calls = (from) => { for (let n = from; n < from + 200_000; n++) environment.apply({ activation: `${n}`.padStart(32, '0'), deadline: n, transaction: `t${n}` }); };
  calls(0); // the heap has its size
  const before = process.memoryUsage().rss;
  calls(200_000);
  assert.ok(process.memoryUsage().rss - before < 20e6, `${process.memoryUsage().rss - before} bytes more`); // the C library would keep 60 MB
});
