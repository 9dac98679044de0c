// Archives and other languages.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { Server, eventually, failure } from '../lib/server.mjs';
import { zip } from '../lib/zip.mjs';

const JAR = new URL('../../../functions/samples/hello-java/hello.jar', import.meta.url);
let server;
let ow;
before(async () => {
  // For Go, on a machine that does much else.
  server = await Server.start({ FLINT_PREPARE__BUILD_TIMEOUT: '10min' });
  ow = server.client();
});
after(() => server.stop());

const call = (name, params = {}) => ow.actions.invoke({ name, blocking: true, result: true, params });

/** Skips a test where this host lacks the runtime. */
const needs = (t, family) => {
  const found = server.runtimes[family].some((runtime) => !runtime.unavailable);
  if (!found) t.skip(`no runtime of the family ${family} on this host: ${server.runtimes[family][0].unavailable}`);
  return found;
};

test('every family is listed, with what brings it where it is missing', () => {
  for (const family of ['nodejs', 'python', 'java', 'go', 'php', 'ruby', 'native', 'blackbox']) {
    const [first] = server.runtimes[family];
    assert.equal(first.default, true, family);
    if (first.unavailable) assert.match(first.unavailable, /apt-get install/);
  }
});

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
    t.skip('hello.jar is not built, and no javac is on PATH to build it: apt-get install default-jdk-headless');
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

const LANGUAGES = {
  php: {
    source: '<?php function main(array $args): array { echo "called\\n"; return ["greeting" => "Hello, {$args["name"]}!", "secret" => getenv("SECRET")]; }',
    failing: '<?php function main(array $args): array { throw new Exception("no such luck"); }',
    broken: '<?php function main( {',
    file: 'index.php',
  },
  ruby: {
    source: 'def main(args)\n  puts "called"\n  { greeting: "Hello, #{args["name"]}!", secret: ENV["SECRET"] }\nend\n',
    failing: 'def main(args)\n  raise "no such luck"\nend\n',
    broken: 'def main(',
    file: 'main.rb',
  },
  go: {
    source:
      'package main\n\nimport (\n\t"fmt"\n\t"os"\n)\n\nfunc Main(args map[string]interface{}) map[string]interface{} {\n\tfmt.Println("called")\n\treturn map[string]interface{}{"greeting": fmt.Sprintf("Hello, %v!", args["name"]), "secret": os.Getenv("SECRET")}\n}\n',
    failing:
      'package main\n\nimport "errors"\n\nfunc Main(args map[string]interface{}) (map[string]interface{}, error) {\n\treturn nil, errors.New("no such luck")\n}\n',
    broken: 'package main\n\nfunc Main() {',
    file: 'main.go',
  },
};

// The first Go function of a host waits until the standard library is compiled, which may take longer than a blocking call does.
const ready = async (name, params) => {
  const { activationId } = await ow.actions.invoke({ name, params });
  return eventually(`the record of ${name}`, () => ow.activations.get({ name: activationId }).catch(() => undefined), 900);
};

for (const [family, { source, failing, broken, file }] of Object.entries(LANGUAGES)) {
  test(family, async (t) => {
    if (!needs(t, family)) return;
    const kind = `${family}:default`;
    // A parameter of initialisation is in the environment and not among the arguments.
    const put = await server.raw('PUT', `actions/${family}`, {
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ exec: { kind, code: source }, parameters: [{ key: 'SECRET', value: 's3', init: true }] }),
    });
    assert.equal(put.status, 200);
    assert.notEqual((await put.json()).exec.kind, kind, 'the kind is stored resolved');
    const first = await ready(family, { name: 'you' });
    assert.deepEqual(first.response.result, { greeting: 'Hello, you!', secret: 's3' });
    assert.equal(first.logs.length, 1);
    assert.match(first.logs[0], /stdout: called$/);
    assert.deepEqual(await call(family, { name: 'again' }), { greeting: 'Hello, again!', secret: 's3' });
    await ow.actions.create({ name: `${family}-zip`, action: zip({ [file]: source }), kind });
    const zipped = await ready(`${family}-zip`, { name: 'zip' });
    assert.equal(zipped.response.result.greeting, 'Hello, zip!');
    await ow.actions.create({ name: `${family}-failing`, action: failing, kind });
    const failed = await ready(`${family}-failing`, {});
    assert.deepEqual([failed.response.status, failed.response.result], ['application error', { error: 'no such luck' }]);
    await ow.actions.create({ name: `${family}-broken`, action: broken, kind });
    const wrong = await ready(`${family}-broken`, {});
    assert.equal(wrong.response.status, 'action developer error');
  });
}

test('a blackbox action that brings its program', async () => {
  const put = (name, exec) =>
    server.raw('PUT', `actions/${name}`, { headers: { 'content-type': 'application/json' }, body: JSON.stringify({ exec: { kind: 'blackbox', ...exec } }) });
  const script = '#!/bin/bash\necho called\necho "{\\"got\\": $1}"\n';
  const skeleton = await put('skeleton', { image: 'openwhisk/dockerskeleton', code: zip({ exec: script }).toString('base64') });
  assert.equal(skeleton.status, 200);
  assert.deepEqual((await skeleton.json()).exec.image, 'openwhisk/dockerskeleton');
  assert.deepEqual(await call('skeleton', { a: 1 }), { got: { a: 1 } });
  const asScript = await put('script', { image: 'openwhisk/dockerskeleton:nightly', code: script });
  assert.equal(asScript.status, 200);
  assert.deepEqual((await asScript.json()).exec, { kind: 'blackbox', image: 'openwhisk/dockerskeleton:nightly', code: script, binary: false });
  assert.deepEqual(await call('script', { a: 2 }), { got: { a: 2 } });
  const loop = '#!/bin/bash\nwhile read -r line; do echo "$line" >&3; done\n';
  assert.equal((await put('loop', { image: 'openwhisk/actionloop-base', code: zip({ exec: loop }).toString('base64') })).status, 200);
  assert.deepEqual((await call('loop', { a: 3 })).value, { a: 3 });
  for (const exec of [{ image: 'me/mine' }, { image: 'me/mine', code: script }, { code: script }]) {
    const refused = await put('image', exec);
    assert.equal(refused.status, 501);
    assert.match((await refused.json()).error, /dockerskeleton/);
  }
});

test('what OpenWhisk\'s Node.js runtime does with results and errors', async () => {
  const code = `
exports.main = ({ mode }) => {
  switch (mode) {
    case 'throw': throw new Error('thrown');
    case 'reject': return Promise.reject(new Error('rejected'));
    case 'object': return Promise.reject({ code: 7 });
    case 'scalar': return 5;
    case 'null': return null;
    case 'list': return [1, 2];
    case 'env': return { text: process.env.TEXT, object: process.env.OBJECT, nothing: process.env.NOTHING };
    default: return undefined;
  }
};`;
  const parameters = [
    { key: 'TEXT', value: 'plain', init: true },
    { key: 'OBJECT', value: { a: [1] }, init: true },
    { key: 'NOTHING', value: null, init: true },
  ];
  const put = await server.raw('PUT', 'actions/results', {
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ exec: { kind: 'nodejs:default', code }, parameters }),
  });
  assert.equal(put.status, 200);
  assert.deepEqual(await call('results'), {});
  // The client cannot take an array apart.
  const list = await server.raw('POST', 'actions/results?blocking=true&result=true', { headers: { 'content-type': 'application/json' }, body: '{"mode":"list"}' });
  assert.deepEqual(await list.json(), [1, 2]);
  assert.deepEqual(await call('results', { mode: 'env' }), { text: 'plain', object: '{"a":[1]}', nothing: '' });
  const failed = async (mode) => {
    const { error } = await failure(ow.actions.invoke({ name: 'results', blocking: true, params: { mode } }));
    return [error.response.status, error.response.result.error];
  };
  assert.deepEqual(await failed('reject'), ['application error', 'rejected']);
  assert.deepEqual(await failed('object'), ['application error', { code: 7 }]);
  for (const mode of ['throw', 'scalar', 'null']) {
    const [status, error] = await failed(mode);
    assert.equal(status, 'action developer error', mode);
    assert.match(error, mode === 'throw' ? /thrown/ : /did not return a dictionary or array/);
  }
});

test('main names a file and a function', async (t) => {
  const files = { 'index.js': 'exports.main = () => ({})', 'lib/other.js': 'exports.run = () => ({ other: true })' };
  const exec = { kind: 'nodejs:default', code: zip(files).toString('base64'), main: 'lib/other.run' };
  const put = await server.raw('PUT', 'actions/dotted', { headers: { 'content-type': 'application/json' }, body: JSON.stringify({ exec }) });
  assert.equal(put.status, 200);
  assert.deepEqual(await call('dotted'), { other: true });
  if (!needs(t, 'python')) return;
  const python = { kind: 'python:default', code: 'def greet(args):\n    return {"hi": args["n"]}\n', main: 'greet' };
  await server.raw('PUT', 'actions/named', { headers: { 'content-type': 'application/json' }, body: JSON.stringify({ exec: python }) });
  assert.deepEqual(await call('named', { n: 2 }), { hi: 2 });
});
