// A project from its manifest: deployed, called, synced, logged, taken away.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import runtime from '@adobe/aio-lib-runtime';
import { GUEST, Server, eventually, record } from '../../openwhisk-js/lib/server.mjs';

const { utils } = runtime;
const quiet = () => {};
let server;
let ow;
let folder;
let kind;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'flint-aio-'));
  server = await Server.start();
  ow = await runtime.init({ apihost: server.url, api_key: GUEST, namespace: 'guest' });
  kind = server.runtimes.nodejs.find((one) => !one.unavailable).kind;
});
after(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

const source = (name, code) => {
  const file = join(folder, name);
  writeFileSync(file, code);
  return file;
};

/** The packages of a manifest, as they are after its YAML was read. */
const packages = () => ({
  shop: {
    inputs: { shop: 'corner' },
    actions: {
      greet: {
        function: source('greet.js', 'exports.main = ({ name, greeting, shop }) => { console.log("greets " + name); return { body: `${greeting}, ${name}, from ${shop}!`, name }; }'),
        runtime: kind,
        web: 'yes',
        inputs: { greeting: 'Hello', name: 'you' },
        limits: { memorySize: 256, timeout: 30000 },
        annotations: { description: 'greets' },
      },
      shout: { function: source('shout.js', 'exports.main = ({ body }) => ({ body: body.toUpperCase() })'), runtime: kind },
    },
    sequences: { loudly: { actions: 'shop/greet, shop/shout', web: 'yes' } },
    triggers: { order: { inputs: { name: 'trigger' } }, tick: { feed: '/whisk.system/alarms/interval', inputs: { minutes: 5 } } },
    rules: { 'on-order': { trigger: 'order', action: 'shop/loudly' } },
    apis: { 'shop-api': { shop: { greet: { greet: { method: 'get', response: 'http' } } } } },
  },
});

/** Processes and syncs a manifest, as `aio runtime deploy sync` does. */
const sync = (manifest) => {
  const entities = utils.processPackage(manifest, {}, {}, {}, false, { apihost: server.url, namespace: 'guest' });
  return utils.syncProject('shop', 'manifest.yaml', JSON.stringify(manifest), entities, ow, quiet);
};

const names = async (collection) => (await ow[collection].list()).map((one) => one.name).sort();

test('a manifest is deployed, and what it says works', async () => {
  await sync(packages());
  assert.deepEqual(await names('actions'), ['greet', 'loudly', 'shout']);
  assert.deepEqual(await names('triggers'), ['order', 'tick']);
  const called = await ow.actions.invoke({ name: 'shop/greet', blocking: true, result: true, params: { name: 'Ada' } });
  assert.equal(called.body, 'Hello, Ada, from corner!');
  const greet = await ow.actions.get('shop/greet');
  assert.deepEqual([greet.limits.timeout, greet.limits.memory, greet.exec.kind], [30000, 256, kind]);
  const web = await fetch(`${server.url}/api/v1/web/guest/shop/loudly.http?name=Bo`);
  assert.deepEqual([web.status, await web.text()], [200, 'HELLO, BO, FROM CORNER!']);
  const [api] = (await ow.routes.list()).apis;
  const route = await fetch(`${api.value.gwApiUrl}/greet?name=Cy`);
  assert.deepEqual([route.status, await route.text()], [200, 'Hello, Cy, from corner!']);
});

test('a fired trigger runs the sequence of its rule', async () => {
  const { activationId } = await ow.triggers.invoke({ name: 'order', params: { name: 'Di' } });
  const fired = await record(ow, activationId);
  const outcome = JSON.parse(fired.logs[0]);
  assert.equal(outcome.success, true, fired.logs[0]);
  const ran = await record(ow, outcome.activationId);
  assert.equal(ran.response.result.body, 'HELLO, DI, FROM CORNER!');
  assert.equal(ran.logs.length, 2);
});

test('logs are found by action, by package and through sequences', async () => {
  const printed = async (filter) => {
    const lines = [];
    await utils.printFilteredActionLogs(ow, (line) => lines.push(String(line)), 50, filter, true);
    return lines.filter((line) => line.startsWith('greets ')).sort();
  };
  await eventually('the logs', async () => (await printed(['shop/greet'])).includes('greets Di'));
  for (const filter of [['shop/greet'], ['shop/'], []]) {
    const lines = await printed(filter);
    assert.ok(lines.includes('greets Ada') && lines.includes('greets Bo'), `${filter}: ${lines}`);
  }
  assert.deepEqual(await printed(['shop/shout']), []);
});

test('what the manifest does not name any more is deleted by the next sync', async () => {
  const smaller = packages();
  delete smaller.shop.actions.shout;
  delete smaller.shop.sequences;
  delete smaller.shop.triggers.tick;
  smaller.shop.rules['on-order'].action = 'shop/greet';
  smaller.shop.actions.greet.inputs.greeting = 'Bye';
  await sync(smaller);
  assert.deepEqual(await names('actions'), ['greet']);
  assert.deepEqual(await names('triggers'), ['order']);
  assert.equal((await ow.rules.get('on-order')).action.name, 'greet', 'the rule has moved');
  const called = await ow.actions.invoke({ name: 'shop/greet', blocking: true, result: true });
  assert.equal(called.body, 'Bye, you, from corner!');
  // A second time nothing is left to delete.
  await sync(smaller);
  assert.deepEqual(await names('actions'), ['greet']);
});

test('a project is found by its name and taken away', async () => {
  const entities = await utils.getProjectEntities('shop', false, ow);
  assert.deepEqual(entities.actions.map((one) => one.name), ['shop/greet']);
  // The library does not mark rules as a project's.
  entities.rules.push({ name: 'on-order' });
  await utils.undeployPackage(entities, ow, quiet);
  for (const collection of ['actions', 'triggers', 'rules', 'packages']) assert.deepEqual(await names(collection), [], collection);
});
