// Creating, reading, listing, updating and deleting actions.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server, failure } from '../lib/server.mjs';

const ECHO = 'function main(params) { return params }';
let server;
let ow;
before(async () => {
  server = await Server.start();
  ow = server.client();
});
after(() => server.stop());

const annotation = (entity, key) => entity.annotations.find((pair) => pair.key === key)?.value;

test('an action is created and read back', async () => {
  const created = await ow.actions.create({ name: 'create', action: ECHO });
  assert.equal(created.version, '0.0.1');
  assert.equal(created.namespace, 'guest');
  const action = await ow.actions.get({ name: 'create' });
  assert.equal(action.exec.code, ECHO);
  assert.equal(action.exec.binary, false);
  assert.match(action.exec.kind, /^nodejs:\d+$/);
  assert.equal(annotation(action, 'exec'), action.exec.kind);
  assert.deepEqual(action.limits, { timeout: 60000, memory: 256, logs: 10, concurrency: 1 });
});

test('the code can be left out', async () => {
  await ow.actions.create({ name: 'nocode', action: ECHO });
  const action = await ow.actions.get({ name: 'nocode', code: false });
  assert.equal(action.exec.code, undefined);
  assert.equal(action.exec.binary, false);
});

test('creating twice is a conflict, updating bumps the version', async () => {
  await ow.actions.create({ name: 'twice', action: ECHO });
  const error = await failure(ow.actions.create({ name: 'twice', action: ECHO }));
  assert.equal(error.statusCode, 409);
  assert.equal(error.error.error, 'resource already exists');
  const updated = await ow.actions.update({ name: 'twice', action: ECHO });
  assert.equal(updated.version, '0.0.2');
});

test('an update keeps what it does not name', async () => {
  await ow.actions.create({
    name: 'merge',
    action: ECHO,
    params: { a: 1 },
    annotations: { first: 1 },
    limits: { timeout: 5000, memory: 128 },
  });
  const updated = await ow.actions.update({ name: 'merge', action: ECHO, annotations: { second: 2 }, limits: { logs: 1 } });
  assert.deepEqual(updated.parameters, [{ key: 'a', value: 1 }]);
  assert.equal(annotation(updated, 'first'), 1);
  assert.equal(annotation(updated, 'second'), 2);
  assert.deepEqual(updated.limits, { timeout: 5000, memory: 128, logs: 1, concurrency: 1 });
});

test('names may have spaces and other signs', async () => {
  for (const name of ['with space', 'R&D', 'x@y.z', '_']) {
    await ow.actions.create({ name, action: ECHO });
    assert.equal((await ow.actions.get({ name })).name, name);
    await ow.actions.delete({ name });
  }
});

test('lists are newest first, paged and without code', async () => {
  for (const name of ['list1', 'list2', 'list3']) await ow.actions.create({ name, action: ECHO });
  const names = (await ow.actions.list({ limit: 2 })).map((action) => action.name);
  assert.deepEqual(names, ['list3', 'list2']);
  const [skipped] = await ow.actions.list({ limit: 1, skip: 2 });
  assert.equal(skipped.name, 'list1');
  assert.deepEqual(skipped.exec, { binary: false });
  const error = await failure(ow.actions.list({ limit: 201 }));
  assert.equal(error.statusCode, 400);
  assert.match(error.error.error, /The value '201' is not in the range of 0 to 200 for actions\./);
});

test('a deleted action is gone', async () => {
  await ow.actions.create({ name: 'gone', action: ECHO });
  await ow.actions.delete({ name: 'gone' });
  for (const ask of [() => ow.actions.get({ name: 'gone' }), () => ow.actions.delete({ name: 'gone' }), () => ow.actions.invoke({ name: 'gone' })]) {
    const error = await failure(ask());
    assert.equal(error.statusCode, 404);
    assert.equal(error.error.error, 'The requested resource does not exist.');
  }
});

test('an unknown runtime is answered with those there are', async () => {
  const error = await failure(ow.actions.create({ name: 'cobol', action: ECHO, kind: 'cobol:60' }));
  assert.equal(error.statusCode, 400);
  assert.match(error.error.error, /The specified runtime 'cobol:60' is not supported by this platform\. Valid values are: .*'nodejs:/);
});

test('limits out of range are refused', async () => {
  for (const [limits, text] of [
    [{ memory: 1024 }, 'memory size 1024 MB exceeds allowed threshold of 512 MB'],
    [{ memory: 64 }, 'memory size 64 MB below allowed threshold of 128 MB'],
    [{ timeout: 300001 }, 'duration 300001 milliseconds exceeds allowed threshold of 300000 milliseconds'],
    [{ logs: 11 }, 'logs size 11 MB exceeds allowed threshold of 10 MB'],
  ]) {
    const error = await failure(ow.actions.create({ name: 'limits', action: ECHO, limits }));
    assert.equal(error.statusCode, 400);
    assert.equal(error.error.error, text);
  }
});

test('a key that opens nothing is refused', async () => {
  const wrong = server.client({ api_key: `23bc46b1-71f6-4ed5-8c54-816aa4f8c502:${'x'.repeat(64)}` });
  const error = await failure(wrong.actions.list());
  assert.equal(error.statusCode, 401);
  assert.equal(error.error.error, 'The supplied authentication is invalid');
});

test('a foreign namespace is closed', async () => {
  const error = await failure(ow.actions.list({ namespace: 'somebody' }));
  assert.equal(error.statusCode, 403);
  assert.equal(error.error.error, "The supplied authentication is not authorized to access 'somebody'.");
});
