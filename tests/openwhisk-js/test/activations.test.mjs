// Records of calls.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server, eventually, failure, record } from '../lib/server.mjs';

let server;
let ow;
before(async () => {
  server = await Server.start();
  ow = server.client();
  await ow.actions.create({ name: 'logs', action: 'function main() { console.log("out"); console.error("err"); return { ok: 1 } }' });
  await ow.actions.create({ name: 'fails', action: 'function main() { return { error: "mine" } }' });
});
after(() => server.stop());

const call = async (name) => {
  const answer = await ow.actions.invoke({ name, blocking: true }).catch((error) => error.error);
  return record(ow, answer.activationId);
};
const annotation = (entity, key) => entity.annotations.find((pair) => pair.key === key)?.value;

test('a record has its logs, times and annotations', async () => {
  const cold = await call('logs');
  // The instance may still be on its way back when the next call comes.
  const warm = await eventually('a warm call', async () => {
    const again = await call('logs');
    return annotation(again, 'initTime') === undefined && again;
  });
  const lines = [...warm.logs].sort();
  assert.equal(lines.length, 2);
  for (const line of lines) assert.match(line, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (stdout|stderr): (out|err)$/);
  assert.ok(warm.end >= warm.start && warm.duration >= 0);
  assert.equal(annotation(warm, 'path'), 'guest/logs');
  assert.match(annotation(warm, 'kind'), /^nodejs:/);
  assert.equal(annotation(warm, 'limits').memory, 256);
  assert.equal(typeof annotation(cold, 'initTime'), 'number');
});

test('result and logs can be read alone', async () => {
  const { activationId: name, logs } = await call('logs');
  assert.deepEqual(await ow.activations.result({ name }), { status: 'success', success: true, result: { ok: 1 }, size: 8 });
  assert.deepEqual(await ow.activations.logs({ name }), { logs });
});

test('lists are newest first and can be filtered', async () => {
  const first = await call('fails');
  const second = await call('logs');
  const [latest] = await ow.activations.list({ limit: 1 });
  assert.equal(latest.activationId, second.activationId);
  const failed = await ow.activations.list({ name: 'fails' });
  assert.equal(failed[0].activationId, first.activationId);
  assert.equal(failed[0].statusCode, 1);
  const since = await ow.activations.list({ since: second.start, docs: true });
  assert.deepEqual(since.map((item) => item.activationId), [second.activationId]);
  assert.deepEqual(since[0].logs, second.logs);
  const { activations } = await ow.activations.list({ count: true });
  assert.ok(activations >= 2);
});

test('ids that are none, and ids that are not there', async () => {
  assert.equal((await failure(ow.activations.get({ name: 'abc' }))).error.error, 'Activation id length is 3 but must be 32.');
  assert.equal((await failure(ow.activations.get({ name: 'z'.repeat(32) }))).error.error, 'The activation id is not valid.');
  assert.equal((await failure(ow.activations.get({ name: '0'.repeat(32) }))).statusCode, 404);
});
