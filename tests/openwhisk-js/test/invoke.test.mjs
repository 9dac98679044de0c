// Calls, and what their ends mean.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { GUEST, Server, eventually, failure, record } from '../lib/server.mjs';

let server;
let ow;
before(async () => {
  server = await Server.start();
  ow = server.client();
});
after(() => server.stop());

const action = (name, code, more = {}) => ow.actions.update({ name, action: code, ...more });

test('a blocking call gives the record', async () => {
  await action('hello', 'function main({ name }) { console.log("hi"); return { greeting: `Hello, ${name}!` } }');
  const answer = await ow.actions.invoke({ name: 'hello', blocking: true, params: { name: 'you' } });
  assert.deepEqual(answer.response.result, { greeting: 'Hello, you!' });
  assert.equal(answer.response.status, 'success');
  assert.equal(answer.response.success, true);
  assert.match(answer.activationId, /^[0-9a-f]{32}$/);
  assert.deepEqual(answer.logs, []);
});

test('the client unwraps the result', async () => {
  await action('result', 'function main() { return { a: [1, null, "é"] } }');
  const result = await ow.actions.invoke({ name: 'result', blocking: true, result: true });
  assert.deepEqual(result, { a: [1, null, 'é'] });
});

test('a call that nobody waits for runs and is recorded', async () => {
  await action('later', 'function main(params) { return params }');
  const { activationId } = await ow.actions.invoke({ name: 'later', params: { n: 1 } });
  const { response } = await record(ow, activationId);
  assert.deepEqual(response.result, { n: 1 });
});

test('many calls at once each get their own answer', async () => {
  await action('many', 'async function main({ n }) { await new Promise((go) => setTimeout(go, n % 7)); return { n } }');
  const calls = Array.from({ length: 100 }, (_, n) => ow.actions.invoke({ name: 'many', blocking: true, result: true, params: { n } }));
  (await Promise.all(calls)).forEach((result, n) => assert.deepEqual(result, { n }));
});

test('the function\'s own error is an application error', async () => {
  for (const [name, code] of [
    ['own', 'function main() { return { error: "mine", more: 1 } }'],
    ['rejects', 'function main() { return Promise.reject("mine") }'],
  ]) {
    await action(name, code);
    const error = await failure(ow.actions.invoke({ name, blocking: true }));
    assert.equal(error.statusCode, 502);
    assert.equal(error.error.response.status, 'application error');
    assert.deepEqual(error.error.response.result, { error: 'mine' });
  }
});

test('a broken function is the developer\'s error and the next version works', async () => {
  await action('broken', 'function main( { return {} }');
  const error = await failure(ow.actions.invoke({ name: 'broken', blocking: true }));
  assert.equal(error.statusCode, 502);
  assert.equal(error.error.response.status, 'action developer error');
  await action('broken', 'function main() { return { ok: true } }');
  assert.deepEqual(await ow.actions.invoke({ name: 'broken', blocking: true, result: true }), { ok: true });
});

test('a throw, an exit and a missing main are told apart', async () => {
  for (const [name, code, text] of [
    ['throws', 'function main() { throw new Error("boom") }', /boom/],
    ['exits', 'function main() { process.exit(1) }', /exited unexpectedly/],
    ['mainless', 'const x = 1', /main/],
  ]) {
    await action(name, code);
    const error = await failure(ow.actions.invoke({ name, blocking: true }));
    assert.equal(error.statusCode, 502, name);
    assert.equal(error.error.response.status, 'action developer error', name);
    assert.match(JSON.stringify(error.error.response.result.error), text, name);
  }
});

test('a time limit ends an infinite loop and the next call works', async () => {
  // Loading has the same limit, and a busy host needs some of it: when it took all, a longer one is tried.
  for (const timeout of [5000, 40000]) {
    await action('loop', 'function main({ stop }) { while (!stop); return { ok: true } }', { limits: { timeout } });
    const error = await failure(ow.actions.invoke({ name: 'loop', blocking: true }));
    assert.equal(error.statusCode, 502);
    const said = error.error.response.result.error;
    if (timeout === 5000 && said.includes('during initialization')) continue;
    assert.equal(said, `The action exceeded its time limits of ${timeout} milliseconds.`);
    break;
  }
  const ok = await ow.actions.invoke({ name: 'loop', blocking: true, result: true, params: { stop: true } });
  assert.deepEqual(ok, { ok: true });
});

test('defaults are overridden by the call, init parameters are in the environment', async () => {
  const code = 'const early = process.env.TOKEN; function main(params) { return { params, early, token: process.env.TOKEN } }';
  await action('defaults', code, { params: { a: 1, b: 2 } });
  const body = {
    parameters: [
      { key: 'a', value: 1 },
      { key: 'b', value: 2 },
      { key: 'TOKEN', value: 'secret', init: true },
    ],
  };
  const headers = { 'content-type': 'application/json' };
  const put = await server.raw('PUT', 'actions/defaults?overwrite=true', { headers, body: JSON.stringify(body) });
  assert.equal(put.status, 200);
  const result = await ow.actions.invoke({ name: 'defaults', blocking: true, result: true, params: { b: 3 } });
  assert.deepEqual(result, { params: { a: 1, b: 3 }, early: 'secret', token: 'secret' });
});

test('a function knows who it is', async () => {
  const code = 'function main() { return Object.fromEntries(Object.entries(process.env).filter(([key]) => key.startsWith("__OW_"))) }';
  await action('context', code);
  const answer = await ow.actions.invoke({ name: 'context', blocking: true });
  const env = answer.response.result;
  assert.equal(env.__OW_NAMESPACE, 'guest');
  assert.equal(env.__OW_ACTION_NAME, '/guest/context');
  assert.equal(env.__OW_ACTION_VERSION, '0.0.1');
  assert.equal(env.__OW_ACTIVATION_ID, answer.activationId);
  assert.ok(Number(env.__OW_DEADLINE) > Date.now());
  assert.equal(env.__OW_API_HOST, server.url);
  assert.equal(env.__OW_API_KEY, undefined, 'a new action is not given its caller\'s key');
});

test('large arguments and results pass, larger ones are refused', async () => {
  await action('echo', 'function main(params) { return params }');
  const text = 'x'.repeat(1024 * 1024 - 100);
  const result = await ow.actions.invoke({ name: 'echo', blocking: true, result: true, params: { text } });
  assert.equal(result.text.length, text.length);
  const error = await failure(ow.actions.invoke({ name: 'echo', blocking: true, params: { text: text + text } }));
  assert.equal(error.statusCode, 413);
  assert.match(error.error.error, /^Request larger than allowed: \d+ > 1048576 bytes\.$/);
  await action('large', 'function main() { return { text: "x".repeat(2 * 1024 * 1024) } }');
  const long = await failure(ow.actions.invoke({ name: 'large', blocking: true }));
  assert.equal(long.statusCode, 502);
  assert.match(long.error.response.result.error, /^The action produced a response that exceeded the allowed length: \d+ > 1048576 bytes\./);
});

test('who waits too long gets the id and the call goes on', async () => {
  await action('slow', 'async function main() { await new Promise((go) => setTimeout(go, 3000)); return { done: true } }');
  const answer = await server.raw('POST', 'actions/slow?blocking=true&timeout=50');
  assert.equal(answer.status, 202);
  const { activationId } = await answer.json();
  assert.equal(answer.headers.get('x-openwhisk-activation-id'), activationId);
  assert.deepEqual((await record(ow, activationId)).response.result, { done: true });
});

test('a client that goes away does not take its call with it', async () => {
  await action('gone', 'async function main() { await new Promise((go) => setTimeout(go, 5000)); return { done: true } }');
  const underWay = async () => (await fetch(`${server.url}/activation/count`)).text();
  await eventually('the calls before it are over', async () => (await underWay()) === '0');
  let calls = 0;
  for (let left = false; !left;) {
    const leaving = new AbortController();
    let answered = false;
    const called = fetch(`${server.url}/api/v1/namespaces/_/actions/gone?blocking=true`, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from(GUEST).toString('base64')}` },
      signal: leaving.signal,
    }).then(() => { answered = true; }, () => { left = true; });
    await eventually('the call is there', async () => answered || (await underWay()) !== '0');
    leaving.abort();
    await called; // when it was answered before it was seen, once more
    calls += 1;
  }
  const list = await eventually('the record', async () => {
    const found = await ow.activations.list({ name: 'gone' });
    return found.length >= calls && found;
  });
  assert.equal(list[0].statusCode, 0);
});

test('what is not a JSON object is refused', async () => {
  const headers = { 'content-type': 'application/json' };
  for (const body of ['[1]', '1', '{', 'text', 'null']) {
    const answer = await server.raw('POST', 'actions/echo?blocking=true', { headers, body });
    assert.equal(answer.status, 400, body);
    const refusal = await answer.json();
    assert.match(refusal.error, /^The request content was malformed:/);
    assert.equal(refusal.code, answer.headers.get('x-request-id'));
  }
});
