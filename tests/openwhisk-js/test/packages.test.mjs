// Packages and bindings: what they hold, what is inherited, who may use them.

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

const object = (pairs) => Object.fromEntries(pairs.map(({ key, value }) => [key, value]));

test('a package is created, updated, listed and deleted', async () => {
  const created = await ow.packages.create({ name: 'p', package: { parameters: [{ key: 'a', value: 1 }] } });
  assert.equal(created.version, '0.0.1');
  assert.deepEqual(created.binding, {});
  const updated = await ow.packages.update({ name: 'p', package: { publish: true } });
  assert.equal(updated.version, '0.0.2');
  assert.deepEqual(object(updated.parameters), { a: 1 });
  assert.ok((await ow.packages.list()).some(({ name, binding }) => name === 'p' && binding === false));
  const shown = await ow.packages.get({ name: 'p' });
  assert.deepEqual([shown.actions, shown.feeds], [[], []]);
  await ow.packages.delete({ name: 'p' });
  assert.equal((await failure(ow.packages.get({ name: 'p' }))).statusCode, 404);
});

test('a package that holds something is deleted by force alone', async () => {
  const missing = await failure(ow.actions.create({ name: 'full/f', action: ECHO }));
  assert.equal(missing.statusCode, 404);
  await ow.packages.create({ name: 'full' });
  await ow.actions.create({ name: 'full/f', action: ECHO });
  assert.deepEqual((await ow.packages.get({ name: 'full' })).actions.map(({ name }) => name), ['f']);
  const error = await failure(ow.packages.delete({ name: 'full' }));
  assert.equal(error.statusCode, 409);
  assert.equal(error.error.error, 'Package not empty (contains 1 entity). Set force param or delete package contents.');
  const forced = await server.raw('DELETE', 'packages/full?force=true');
  assert.equal(forced.status, 200);
  assert.equal((await failure(ow.actions.get({ name: 'full/f' }))).statusCode, 404);
});

test('a call through a binding has the parameters of all layers', async () => {
  const layer = (name, keys) => keys.map((key) => ({ key, value: name }));
  await ow.packages.create({ name: 'provider', package: { parameters: layer('provider', ['a', 'b', 'c', 'd']) } });
  await ow.actions.create({ name: 'provider/f', action: ECHO, params: { c: 'action', d: 'action' } });
  const binding = { namespace: '_', name: 'provider' };
  await ow.packages.create({ name: 'bound', package: { binding, parameters: layer('binding', ['b', 'c', 'd']) } });
  const call = (name) => ow.actions.invoke({ name, params: { d: 'call' }, blocking: true });
  const direct = await call('provider/f');
  assert.deepEqual(direct.response.result, { a: 'provider', b: 'provider', c: 'action', d: 'call' });
  const bound = await call('bound/f');
  assert.deepEqual(bound.response.result, { a: 'provider', b: 'binding', c: 'action', d: 'call' });
  const annotations = object(bound.annotations);
  assert.deepEqual([annotations.path, annotations.binding], ['guest/provider/f', 'guest/bound']);
  const error = await failure(ow.actions.create({ name: 'bound/g', action: ECHO }));
  assert.equal(error.error.error, 'Operation not permitted on package binding.');
});

test('init parameters of a binding are in the environment of its own calls alone', async () => {
  await ow.packages.create({ name: 'env' });
  await ow.actions.create({ name: 'env/f', action: 'function main() { return { token: process.env.TOKEN ?? null } }' });
  const binding = { namespace: '_', name: 'env' };
  for (const token of ['one', 'two']) {
    const parameters = [{ key: 'TOKEN', value: token, init: true }];
    await ow.packages.create({ name: `env-${token}`, package: { binding, parameters } });
  }
  const token = async (name) => (await ow.actions.invoke({ name, blocking: true, result: true })).token;
  for (let round = 0; round < 3; round += 1) {
    assert.equal(await token('env-one/f'), 'one');
    assert.equal(await token('env-two/f'), 'two');
    assert.equal(await token('env/f'), null);
  }
});
