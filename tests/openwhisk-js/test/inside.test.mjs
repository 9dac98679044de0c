// Actions that use the API themselves, without any network: with the real client inside of them, with Python's own, and from a shell.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { GUEST, Server, eventually, failure, record } from '../lib/server.mjs';
import { zip } from '../lib/zip.mjs';

let server;
let ow;
before(async () => {
  server = await Server.start();
  ow = server.client();
});
after(() => server.stop());

const MODULES = new URL('../node_modules', import.meta.url).pathname;

/** The client with what it needs, as `npm install openwhisk` puts it beside an action. */
function modules() {
  const files = {};
  for (const entry of readdirSync(MODULES, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath ?? entry.path, entry.name);
    if (entry.isFile() && /\.(js|json)$/.test(entry.name)) files[`node_modules/${path.slice(MODULES.length + 1)}`] = readFileSync(path);
  }
  return files;
}

/** An action with the client, and with a key. */
const withClient = (name, code, more = {}) => {
  const files = { ...modules(), 'package.json': '{"main": "index.js"}', 'index.js': code };
  return (more.of ?? ow).actions.update({ name, action: zip(files), kind: 'nodejs:default', annotations: { 'provide-api-key': true }, ...more });
};

test('an action calls others, fires triggers and reads what came of it, with the real client', async () => {
  await ow.actions.update({ name: 'echo', action: 'function main(params) { return params }' });
  await ow.triggers.update({ name: 'fired' });
  await ow.rules.update({ name: 'rule', action: 'echo', trigger: 'fired' });
  await withClient('everything', `
    const openwhisk = require('openwhisk');
    const eventually = async (ask) => {
      for (;;) {
        try { return await ask(); } catch (error) { if (error.statusCode !== 404) throw error; }
        await new Promise((go) => setTimeout(go, 50));
      }
    };
    exports.main = async ({ n }) => {
      const ow = openwhisk();
      const result = await ow.actions.invoke({ name: 'echo', blocking: true, result: true, params: { n } });
      const whole = await ow.actions.invoke({ name: 'echo', blocking: true, params: { n: n + 1 } });
      const { activationId } = await ow.actions.invoke({ name: 'echo', params: { n: n + 2 } });
      const later = await eventually(() => ow.activations.result({ name: activationId }));
      const fired = await ow.triggers.invoke({ name: 'fired', params: { n: n + 3 } });
      const trigger = await eventually(() => ow.activations.get({ name: fired.activationId }));
      await ow.actions.create({ name: 'made', action: 'function main() { return { made: true } }' });
      const made = await ow.actions.invoke({ name: 'made', blocking: true, result: true });
      await ow.actions.delete({ name: 'made' });
      const actions = (await ow.actions.list()).map(({ name }) => name);
      return { result, whole: whole.response.result, later: later.result, trigger: trigger.name, nested: whole.activationId, made, actions, host: process.env.__OW_API_HOST };
    };`);
  const answer = await ow.actions.invoke({ name: 'everything', blocking: true, params: { n: 1 } });
  const { nested, actions, host, ...rest } = answer.response.result;
  assert.deepEqual(rest, { result: { n: 1 }, whole: { n: 2 }, later: { n: 3 }, trigger: 'fired', made: { made: true } });
  assert.ok(actions.includes('everything') && !actions.includes('made'), actions);
  assert.notEqual(host, server.url, 'the server itself is out of reach');
  // The record of what was called is that of any call: its own, of the same namespace, and no step of a composition.
  const called = await record(ow, nested);
  assert.equal(called.namespace, 'guest');
  assert.equal(called.name, 'echo');
  assert.equal(called.cause, undefined);
  assert.equal(called.subject, (await record(ow, answer.activationId)).subject);
});

test('a client made outside of the handler works when it is made at the first call', async () => {
  await withClient('lazy', `
    const openwhisk = require('openwhisk');
    let ow;
    exports.main = async ({ n }) => {
      ow ??= openwhisk();
      return ow.actions.invoke({ name: 'echo', blocking: true, result: true, params: { n } });
    };`);
  for (let n = 0; n < 5; n += 1) {
    assert.deepEqual(await ow.actions.invoke({ name: 'lazy', blocking: true, result: true, params: { n } }), { n });
  }
});

test('many requests at once from one call are all answered', async () => {
  await withClient('fan', `
    exports.main = async ({ calls }) => {
      const ow = require('openwhisk')();
      const answers = await Promise.all(Array.from({ length: calls }, (_, n) => ow.actions.invoke({ name: 'echo', blocking: true, result: true, params: { n } })));
      return { sum: answers.reduce((sum, { n }) => sum + n, 0) };
    };`);
  const result = await ow.actions.invoke({ name: 'fan', blocking: true, result: true, params: { calls: 100 } });
  assert.deepEqual(result, { sum: 4950 });
});

test('Python calls with what it brings', async (t) => {
  if (server.runtimes.python.every((runtime) => runtime.unavailable)) return t.skip('no Python on this host');
  await ow.actions.update({
    name: 'python-inside',
    kind: 'python:default',
    annotations: { 'provide-api-key': true },
    action: `
import base64, json, os, urllib.error, urllib.request

def main(params):
    url = os.environ["__OW_API_HOST"] + "/api/v1/namespaces/_/actions/echo?blocking=true&result=true"
    key = base64.b64encode(os.environ["__OW_API_KEY"].encode()).decode()
    request = urllib.request.Request(url, json.dumps(params).encode(), {"Authorization": "Basic " + key, "Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        said = json.load(answer)
    try:
        urllib.request.urlopen(url.replace("/echo", "/missing"), b"{}", timeout=60)
    except urllib.error.HTTPError as error:
        return {"said": said, "without": error.code, "text": json.load(error)["error"]}
`,
  });
  const result = await ow.actions.invoke({ name: 'python-inside', blocking: true, result: true, params: { a: 'ä' } });
  assert.deepEqual(result, { said: { a: 'ä' }, without: 401, text: 'The resource requires authentication, which was not supplied with the request' });
});

test('a native action calls from a shell', async () => {
  const script = `#!/bin/bash
key=$(printf %s "$__OW_API_KEY" | base64 -w0)
address=\${__OW_API_HOST#http://}
exec 3<>"/dev/tcp/\${address%:*}/\${address#*:}"
printf 'POST /api/v1/namespaces/_/actions/echo?blocking=true&result=true HTTP/1.1\\r\\nConnection: close\\r\\nAuthorization: Basic %s\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n%s' "$key" "\${#1}" "$1" >&3
tail -n 1 <&3
echo
`;
  for (const image of ['openwhisk/dockerskeleton']) {
    const body = { exec: { kind: 'blackbox', image, code: zip({ exec: script }).toString('base64') }, annotations: [{ key: 'provide-api-key', value: true }] };
    const put = await server.raw('PUT', 'actions/shell-inside?overwrite=true', { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
    assert.equal(put.status, 200, await put.text());
    assert.deepEqual(await ow.actions.invoke({ name: 'shell-inside', blocking: true, result: true, params: { x: [1] } }), { x: [1] });
  }
});

test('an action without the annotation has neither key nor way', async () => {
  const code = `
    exports.main = async ({ key }) => {
      const authorization = 'Basic ' + Buffer.from(key).toString('base64');
      const ask = (host) => fetch(host + '/api/v1/namespaces', { headers: { authorization } }).then((answer) => answer.status, (error) => error.cause.code);
      return { said: await ask(process.env.__OW_API_HOST), inside: await ask('http://127.0.0.1:3233'), key: process.env.__OW_API_KEY ?? null };
    };`;
  await ow.actions.update({ name: 'keyless', action: code });
  const result = await ow.actions.invoke({ name: 'keyless', blocking: true, result: true, params: { key: GUEST } });
  assert.deepEqual(result, { said: 'ECONNREFUSED', inside: 'ECONNREFUSED', key: null });
});

test('what a call asked for ends with its time', async () => {
  await ow.actions.update({ name: 'slow', action: 'async function main({ ms }) { await new Promise((go) => setTimeout(go, ms)); return { slow: true } }' });
  // Loading has the same limit: when a busy host took so much of it that nothing was called, a longer one is tried.
  for (const timeout of [8000, 40000]) {
    await withClient('impatient', `
      exports.main = async () => {
        const { activationId } = await require('openwhisk')().actions.invoke({ name: 'slow', blocking: true, params: { ms: ${timeout + 4000} } });
        return { activationId };
      };`, { limits: { timeout } });
    const error = await failure(ow.actions.invoke({ name: 'impatient', blocking: true }));
    const said = error.error.response.result.error;
    const called = (await (await fetch(`${server.url}/activation/count`)).text()) !== '0';
    if (timeout === 8000 && (!called || said.includes('during initialization'))) continue;
    assert.equal(said, `The action exceeded its time limits of ${timeout} milliseconds.`);
    break;
  }
  // As when any caller hangs up: what was called goes on to its own end.
  const [slow] = await eventually('the record of what was called', async () => {
    const records = await ow.activations.list({ name: 'slow' });
    return records.length > 0 && records;
  });
  assert.deepEqual((await record(ow, slow.activationId)).response.result, { slow: true });
});

test('a chain of calls that wait is not stopped by its namespace\'s own limit', async (t) => {
  const narrow = await Server.start({ FLINT_LIMITS__CONCURRENT_INVOCATIONS: '1' });
  t.after(() => narrow.stop());
  const of = narrow.client();
  const next = (name) => `
    exports.main = async ({ path }) => require('openwhisk')().actions.invoke({ name: '${name}', blocking: true, result: true, params: { path: [...path, process.env.__OW_ACTION_NAME] } });`;
  await withClient('a', next('b'), { of });
  await withClient('b', next('c'), { of });
  await of.actions.update({ name: 'c', action: 'function main({ path }) { return { path } }' });
  for (let round = 0; round < 3; round += 1) {
    const result = await of.actions.invoke({ name: 'a', blocking: true, result: true, params: { path: [] } });
    assert.deepEqual(result, { path: ['/guest/a', '/guest/b'] });
  }
  // One that calls itself shares its gate with the clones that it waits for.
  await withClient('self', `
    exports.main = async ({ n }) => n === 0 ? { deep: true } : require('openwhisk')().actions.invoke({ name: 'self', blocking: true, result: true, params: { n: n - 1 } });`, { of });
  assert.deepEqual(await of.actions.invoke({ name: 'self', blocking: true, result: true, params: { n: 4 } }), { deep: true });
});

test('calls at once in one instance each end their own requests', async (t) => {
  const wide = await Server.start({ FLINT_LIMITS__MAX_CONCURRENCY: '4' });
  t.after(() => wide.stop());
  const of = wide.client();
  await of.actions.update({ name: 'echo', action: 'function main(params) { return params }' });
  await withClient('shared', `
    exports.main = async ({ n }, context) => {
      const ow = require('openwhisk')({ api_key: process.env.__OW_API_KEY });
      return ow.actions.invoke({ name: 'echo', blocking: true, result: true, params: { n } });
    };`, { of, limits: { concurrency: 4 } });
  const answers = await Promise.all([1, 2, 3, 4].map((n) => of.actions.invoke({ name: 'shared', blocking: true, result: true, params: { n } })));
  assert.deepEqual(answers, [1, 2, 3, 4].map((n) => ({ n })));
});
