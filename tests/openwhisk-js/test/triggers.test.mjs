// Triggers and rules.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server, failure, record } from '../lib/server.mjs';

const ECHO = 'function main(params) { return params }';
let server;
let ow;
before(async () => {
  server = await Server.start();
  ow = server.client();
  await ow.actions.create({ name: 'echo', action: ECHO });
});
after(() => server.stop());

test('a trigger is created, updated, listed and deleted', async () => {
  const created = await ow.triggers.create({ name: 'crud', params: { a: 1 } });
  assert.equal(created.version, '0.0.1');
  assert.equal((await ow.triggers.update({ name: 'crud', trigger: {} })).version, '0.0.2');
  assert.ok((await ow.triggers.list()).some(({ name }) => name === 'crud'));
  await ow.triggers.delete({ name: 'crud' });
  assert.equal((await failure(ow.triggers.get({ name: 'crud' }))).statusCode, 404);
});

test('a fired trigger calls the actions of its rules', async () => {
  await ow.triggers.create({ name: 'fired' });
  const rule = await ow.rules.create({ name: 'calls', action: '/_/echo', trigger: '/_/fired' });
  assert.equal(rule.status, 'active');
  assert.deepEqual(rule.action, { path: 'guest', name: 'echo' });
  const { activationId } = await ow.triggers.invoke({ name: 'fired', params: { n: 7 } });
  const fired = await record(ow, activationId);
  assert.deepEqual(fired.response.result, { n: 7 });
  assert.equal(fired.end, undefined);
  const [line] = fired.logs.map((text) => JSON.parse(text));
  assert.deepEqual(
    { ...line, activationId: undefined },
    { rule: 'guest/calls', action: 'guest/echo', statusCode: 0, success: true, activationId: undefined },
  );
  const called = await record(ow, line.activationId);
  assert.equal(called.response.result.n, 7);
  assert.ok(called.response.result.__ow_headers['user-agent']);
});

test('a disabled rule does nothing, and without an active rule there is nothing to record', async () => {
  await ow.triggers.create({ name: 'quiet' });
  await ow.rules.create({ name: 'off', action: 'echo', trigger: 'quiet' });
  assert.equal((await ow.rules.get({ name: 'off' })).status, 'active');
  await ow.rules.disable({ name: 'off' });
  assert.equal((await ow.rules.get({ name: 'off' })).status, 'inactive');
  assert.equal((await server.raw('POST', 'triggers/quiet')).status, 204);
  await ow.rules.enable({ name: 'off' });
  assert.ok((await ow.triggers.invoke({ name: 'quiet' })).activationId);
  await ow.rules.delete({ name: 'off' });
  assert.equal((await server.raw('POST', 'triggers/quiet')).status, 204);
});

test('a rule needs what it joins', async () => {
  await ow.triggers.create({ name: 'there' });
  const error = await failure(ow.rules.create({ name: 'r', action: '/_/none', trigger: '/_/there' }));
  assert.equal(error.statusCode, 400);
  assert.equal(error.error.error, 'action /guest/none does not exist');
});
