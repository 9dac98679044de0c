// Archives and other languages.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { Server, failure } from '../lib/server.mjs';
import { zip } from '../lib/zip.mjs';

const JAR = new URL('../../../functions/samples/hello-java/hello.jar', import.meta.url);
let server;
let ow;
before(async () => {
  server = await Server.start();
  ow = server.client();
});
after(() => server.stop());

const call = (name, params = {}) => ow.actions.invoke({ name, blocking: true, result: true, params });

/** Skips a test where this host lacks the runtime. */
const needs = (t, family) => {
  if (!server.runtimes[family]) t.skip(`no runtime of the family ${family} on this host`);
  return Boolean(server.runtimes[family]);
};

test('a zip with a package and its own modules', async () => {
  const archive = zip({
    'package.json': JSON.stringify({ name: 'f', main: 'lib/entry.js' }),
    'lib/entry.js': 'const { twice } = require("twice"); exports.main = ({ n }) => ({ n: twice(n) })',
    'node_modules/twice/package.json': JSON.stringify({ name: 'twice', main: 'index.js' }),
    'node_modules/twice/index.js': 'exports.twice = (n) => 2 * n',
  });
  await ow.actions.create({ name: 'zipped', action: archive });
  assert.deepEqual(await call('zipped', { n: 21 }), { n: 42 });
  const { exec } = await ow.actions.get({ name: 'zipped' });
  assert.equal(exec.binary, true);
  assert.deepEqual(Buffer.from(exec.code, 'base64'), archive);
});

test('an archive that is none is the developer\'s error', async () => {
  await ow.actions.create({ name: 'unzipped', action: Buffer.from('PK\x03\x04 this is no archive at all') });
  const error = await failure(call('unzipped'));
  assert.equal(error.statusCode, 502);
});

test('python', async (t) => {
  if (!needs(t, 'python')) return;
  const code = 'import sys\ndef main(args):\n    print("called")\n    return {"greeting": "Hello, " + args.get("name", "?"), "major": sys.version_info[0]}\n';
  await ow.actions.create({ name: 'python', action: code, kind: 'python:default' });
  assert.deepEqual(await call('python', { name: 'ünï' }), { greeting: 'Hello, ünï', major: 3 });
  await ow.actions.update({ name: 'python', action: 'def main(args):\n    return 1 / 0\n', kind: 'python:3' });
  const error = await failure(ow.actions.invoke({ name: 'python', blocking: true }));
  assert.equal(error.error.response.status, 'application error');
});

test('a python archive', async (t) => {
  if (!needs(t, 'python')) return;
  const archive = zip({ '__main__.py': 'import helper\ndef main(args):\n    return {"n": helper.twice(args["n"])}\n', 'helper.py': 'def twice(n):\n    return 2 * n\n' });
  await ow.actions.create({ name: 'pyzip', action: archive, kind: 'python:default' });
  assert.deepEqual(await call('pyzip', { n: 4 }), { n: 8 });
});

test('a jar', async (t) => {
  if (!needs(t, 'java')) return;
  if (!existsSync(JAR)) {
    t.skip('hello.jar is not built: functions/samples/build.sh');
    return;
  }
  const exec = { kind: 'java:default', code: readFileSync(JAR).toString('base64'), main: 'Hello' };
  const put = (body) => server.raw('PUT', 'actions/jar', { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  const refused = await put({ exec: { ...exec, main: undefined } });
  assert.equal(refused.status, 400);
  assert.match((await refused.json()).error, /'main' must be a string defined in 'exec'/);
  assert.equal((await put({ exec })).status, 200);
  assert.deepEqual(await call('jar', { name: 'you' }), { greeting: 'Hello, you!' });
});
