// /whisk.system/messaging through the client's own feeds, with a real server of NATS.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Nats } from '../lib/nats.mjs';
import { Server, eventually, failure } from '../lib/server.mjs';

const FEED = '/whisk.system/messaging/natsFeed';
let nats;
let server;
let ow;
before(async () => {
  nats = await Nats.start();
  server = await Server.start({
    FLINT_FEEDS__NATS_HOSTS: JSON.stringify([nats.host]),
    FLINT_FEEDS__NATS_ALLOW_PRIVATE: 'true',
    FLINT_LIMITS__FIRES_PER_MINUTE: '1000000',
  });
  ow = server.client();
  await ow.actions.create({ name: 'echo', action: 'function main(params) { return params }' });
});
after(async () => {
  await server?.stop();
  await nats?.stop();
});

const read = async (trigger) => (await ow.feeds.get({ name: FEED, trigger })).response.result;

/** A trigger with a rule for `echo`, whose feed listens. */
async function listening(name, params) {
  await ow.triggers.create({ name });
  await ow.rules.create({ name: `of-${name}`, action: 'echo', trigger: name });
  const given = { servers: [nats.host], trigger_payload: { of: name }, ...params };
  const made = await ow.feeds.create({ name: FEED, trigger: name, params: given });
  assert.deepEqual(made.response.result, { status: 'success' });
  await connected(name);
}

const connected = (name) =>
  eventually('a connection', async () => (await read(name)).status.connection === 'connected');

/** The messages that `echo` was called with for a trigger, once there are so many, in order of `value`. */
async function messages(name, count) {
  const found = await eventually(`${count} messages`, async () => {
    const records = await ow.activations.list({ name: 'echo', limit: 200, docs: true });
    const results = records.map(({ response }) => response.result).filter(({ of }) => of === name);
    const all = results.flatMap((result) => result.messages);
    return all.length >= count && all;
  });
  return found.sort((a, b) => (a.sequence ?? 0) - (b.sequence ?? 0));
}

test('messages of a subject fire a trigger', async () => {
  await listening('plain', { subject: 'plain.*', isJSONData: true, queue: 'workers' });
  await nats.publish('plain.a', ['{"n": 1}']);
  assert.deepEqual(await messages('plain', 1), [{ subject: 'plain.a', value: { n: 1 } }]);
});

test('messages of a stream are kept while the feed does not listen', async () => {
  await nats.createStream('ORDERS', ['orders.>']);
  await listening('kept', { subject: 'orders.new', stream: 'ORDERS', user: 'me', password: 'hunter2' });
  await nats.publish('orders.new', ['0', '1']);
  await messages('kept', 2);

  const ask = (lifecycleEvent) =>
    ow.actions.invoke({ name: FEED, blocking: true, params: { lifecycleEvent, triggerName: '/_/kept', authKey: 'x' } });
  await ask('PAUSE');
  await eventually('the end of the connection', async () => !('connection' in (await read('kept')).status));
  await nats.publish('orders.new', ['2', '3']);
  const paused = await read('kept');
  assert.equal(paused.status.active, false);
  assert.doesNotMatch(JSON.stringify(paused), /hunter2/);
  await ask('UNPAUSE');
  const all = await messages('kept', 4);
  assert.deepEqual(all.map(({ value }) => value), ['0', '1', '2', '3']);
  assert.deepEqual(all.map(({ sequence }) => sequence), [1, 2, 3, 4]);

  await ow.feeds.update({ name: FEED, trigger: 'kept', params: { isBinaryValue: true } });
  await connected('kept');
  await nats.publish('orders.new', ['4']);
  const last = (await messages('kept', 5)).at(-1);
  assert.deepEqual(last, { subject: 'orders.new', value: 'NA==', encoding: 'base64', sequence: 5 });

  await ow.feeds.delete({ name: FEED, trigger: 'kept' });
  assert.match((await failure(ow.feeds.get({ name: FEED, trigger: 'kept' }))).message, /has no feed/);
});

test('what is wrong is said', async () => {
  await ow.triggers.create({ name: 'wrong' });
  for (const [params, text] of [
    [{}, /natsFeed is missing the servers parameter/],
    [{ servers: [nats.host] }, /natsFeed is missing the subject parameter/],
    [{ servers: 'http://x', subject: 's' }, /is not a server of NATS/],
    [{ servers: '10.0.0.1', subject: 's' }, /connections to nats:\/\/10.0.0.1:4222 are not allowed/],
    [{ servers: nats.host, subject: 'a..b' }, /is not a subject of NATS/],
  ]) {
    const error = await failure(ow.feeds.create({ name: FEED, trigger: 'wrong', params }));
    assert.match(JSON.stringify(error.error) + error.message, text);
  }
});
