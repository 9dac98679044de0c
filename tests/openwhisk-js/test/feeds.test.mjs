// The packages of /whisk.system: alarms through the client's own feeds, and functions that everybody has.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server, eventually, failure, record } from '../lib/server.mjs';

const ALARMS = '/whisk.system/alarms';
let server;
let ow;
before(async () => {
  server = await Server.start();
  ow = server.client();
  await ow.actions.create({ name: 'echo', action: 'function main(params) { return params }' });
});
after(() => server.stop());

/** A trigger with a rule for `echo`. */
async function listening(name) {
  await ow.triggers.create({ name });
  await ow.rules.create({ name: `of-${name}`, action: 'echo', trigger: name });
}

/** What `echo` was called with by a trigger's feed, once that was so many times. */
async function events(payload, count) {
  const found = await eventually(`${count} events`, async () => {
    const records = await ow.activations.list({ name: 'echo', limit: 200, docs: true });
    const results = records.map(({ response }) => response.result).filter(({ of }) => of === payload);
    return results.length >= count && results;
  });
  return found.map((result) => result.__ow_headers['x-flint-instant']);
}

const read = async (trigger) => (await ow.feeds.get({ name: `${ALARMS}/alarm`, trigger })).response.result;

test('an alarm fires every second, each instant once', async () => {
  await listening('ticks');
  const params = { cron: '* * * * * *', trigger_payload: { of: 'ticks' } };
  const made = await ow.feeds.create({ name: `${ALARMS}/alarm`, trigger: 'ticks', params });
  assert.deepEqual(made.response.result, { status: 'success' });
  await events('ticks', 3);
  const { config, status } = await read('ticks');
  assert.deepEqual(config, { name: 'ticks', namespace: 'guest', payload: { of: 'ticks' }, cron: '* * * * * *' });
  assert.equal(status.active, true);
  assert.ok(status.nextFire > 0 && status.fired >= 3);

  await ow.feeds.update({ name: `${ALARMS}/alarm`, trigger: 'ticks', params: { cron: '0 0 1 1 *' } });
  const { fired } = (await read('ticks')).status;
  const instants = await events('ticks', fired);
  assert.equal(new Set(instants).size, fired);
  assert.equal(instants.length, fired);

  await ow.feeds.delete({ name: `${ALARMS}/alarm`, trigger: 'ticks' });
  const gone = await failure(ow.feeds.get({ name: `${ALARMS}/alarm`, trigger: 'ticks' }));
  assert.match(gone.message, /has no feed/);
});

test('an alarm that fires once takes its trigger and rules along', async () => {
  await listening('once');
  const create = (ahead) => {
    const params = { date: Date.now() + ahead, deleteAfterFire: 'rules', trigger_payload: { of: 'once' } };
    return ow.feeds.create({ name: `${ALARMS}/once`, trigger: 'once', params });
  };
  // A busy host may take so long that the date is over.
  await create(5000).catch(() => create(60000));
  assert.equal((await events('once', 1)).length, 1);
  const missing = (promise) => promise.then(() => false, (error) => error.statusCode === 404);
  await eventually('the deletion', () => missing(ow.triggers.get({ name: 'once' })));
  await eventually('the deletion', () => missing(ow.rules.get({ name: 'of-once' })));
});

test('what is wrong with a feed is said in words that users know', async () => {
  await ow.triggers.create({ name: 'wrong' });
  for (const [feed, params, text] of [
    ['alarm', {}, /alarms trigger feed is missing the cron parameter/],
    ['alarm', { cron: 'every day' }, /cron pattern 'every day' is not valid/],
    ['interval', { minutes: 'five' }, /the minutes parameter must be an integer/],
    ['once', { date: 'tomorrow' }, /date parameter 'tomorrow' is not a valid Date/],
  ]) {
    const error = await failure(ow.feeds.create({ name: `${ALARMS}/${feed}`, trigger: 'wrong', params }));
    assert.match(JSON.stringify(error.error) + error.message, text);
  }
});

test("everybody has the system's packages, and can bind them", async () => {
  const packages = await ow.packages.list({ namespace: 'whisk.system' });
  const names = packages.map(({ name }) => name);
  for (const name of ['alarms', 'messaging', 'samples', 'utils']) assert.ok(names.includes(name), name);
  const alarms = await ow.packages.get({ namespace: 'whisk.system', name: 'alarms' });
  assert.deepEqual(alarms.feeds.map(({ name }) => name), ['alarm', 'interval', 'once']);
  await ow.packages.create({ name: 'tools', package: { binding: { namespace: 'whisk.system', name: 'utils' } } });
  const sorted = await ow.actions.invoke({ name: 'tools/sort', blocking: true, result: true, params: { lines: [4, 2, 3] } });
  assert.deepEqual(sorted, { lines: [2, 3, 4], length: 3 });
  assert.equal((await failure(ow.packages.update({ namespace: 'whisk.system', name: 'utils', package: {} }))).statusCode, 403);
});

test('every function of theirs does what its sample says', async () => {
  for (const pack of ['utils', 'samples']) {
    const { actions } = await ow.packages.get({ namespace: 'whisk.system', name: pack });
    for (const { name, annotations } of actions) {
      const said = Object.fromEntries(annotations.map(({ key, value }) => [key, value]));
      if (name === 'curl') continue; // there is no outside here; see below
      const options = { blocking: true, result: true, params: said.sampleInput ?? {} };
      const result = await ow.actions.invoke({ name: `/whisk.system/${pack}/${name}`, ...options });
      if (name === 'date') assert.ok(Date.parse(result.date) > Date.parse(said.sampleOutput.date));
      else if (name === 'hosturl') assert.equal(result.url, `${server.url}/api/v1/web/guest/utils/echo.json`);
      else assert.deepEqual(result, said.sampleOutput, `${pack}/${name}`);
    }
  }
  const hello = await ow.actions.invoke({ name: '/whisk.system/samples/helloWorld', blocking: true, params: { payload: 'Cat' } });
  const logged = await eventually('the log', async () => {
    const { logs } = await record(ow, hello.activationId);
    return logs.length > 0 && logs;
  });
  assert.match(logged[0], /hello Cat!/);
});

test('they are parts of sequences', async () => {
  const sequence = { exec: { kind: 'sequence', components: ['/whisk.system/utils/split', '/whisk.system/utils/sort'] } };
  await ow.actions.create({ name: 'sorted', action: sequence });
  const result = await ow.actions.invoke({ name: 'sorted', blocking: true, result: true, params: { payload: 'b,c,a', separator: ',' } });
  assert.deepEqual(result, { lines: ['a', 'b', 'c'], length: 3 });
});
