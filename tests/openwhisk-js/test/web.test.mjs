// Web actions, by plain HTTP as browsers and curl use them.

import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { GUEST, Server, record } from '../lib/server.mjs';

const ECHO = 'function main(params) { return params }';
let server;
let ow;
before(async () => {
  server = await Server.start({ FLINT_SERVER__WEB_HOSTS: '["localhost"]' });
  ow = server.client();
});
after(() => server.stop());

const web = (path, options) => fetch(`${server.url}/api/v1/web/guest/default/${path}`, options);
const basic = `Basic ${Buffer.from(GUEST).toString('base64')}`;

async function deploy(name, action, annotations = {}) {
  await ow.actions.update({ name, action, annotations: { 'web-export': true, ...annotations } });
}

test('an action answers as its result says', async () => {
  await deploy('answer', `function main({ name }) {
    return { statusCode: 201, headers: { 'Content-Type': 'text/plain', 'Set-Cookie': ['a=1', 'b=2'] }, body: 'hello ' + name }
  }`);
  const reply = await web('answer?name=you');
  assert.equal(reply.status, 201);
  assert.equal(reply.headers.get('content-type'), 'text/plain; charset=UTF-8');
  assert.deepEqual(reply.headers.getSetCookie(), ['a=1', 'b=2']);
  assert.equal(await reply.text(), 'hello you');
  assert.equal(reply.headers.get('access-control-allow-origin'), '*');
  const kept = await record(ow, reply.headers.get('x-openwhisk-activation-id'));
  assert.equal(kept.response.result.statusCode, 201);
});

test('every method arrives, and HEAD has no body', async () => {
  await deploy('method', 'function main(params) { return { body: params.__ow_method } }');
  for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH']) {
    assert.equal(await (await web('method', { method })).text(), method.toLowerCase());
  }
  const head = await web('method', { method: 'HEAD' });
  assert.equal(head.status, 200);
  assert.equal(await head.text(), '');
  assert.match(head.headers.get('x-openwhisk-activation-id'), /^[0-9a-f]{32}$/);
});

test('query, form, JSON and bytes become arguments', async () => {
  await deploy('echo', ECHO);
  const send = async (body, type) => {
    const reply = await web('echo.json/rest?a=query&b=2', { method: 'POST', body, headers: type ? { 'content-type': type } : {} });
    assert.equal(reply.status, 200);
    return reply.json();
  };
  const form = await send(new URLSearchParams({ a: 'form é' }));
  assert.deepEqual([form.a, form.b, form.__ow_path], ['form é', '2', '/rest']);
  const json = await send('{"a":{"deep":[1]}}', 'application/json');
  assert.deepEqual([json.a, json.b], [{ deep: [1] }, '2']);
  const bytes = Buffer.from([0, 1, 254, 255]);
  assert.equal((await send(bytes, 'image/png')).__ow_body, bytes.toString('base64'));
  const multipart = new FormData();
  multipart.set('file', new Blob(['content']), 'f.txt');
  const parts = Buffer.from((await send(multipart)).__ow_body, 'base64').toString();
  assert.match(parts, /filename="f.txt"[^]*content/);
});

test('a raw action gets query and body unread', async () => {
  await deploy('raw', ECHO, { 'raw-http': true });
  const reply = await web('raw.json?a=1&a=2', { method: 'POST', body: '{"x":1}', headers: { 'content-type': 'application/json' } });
  const { __ow_query, __ow_body, a } = await reply.json();
  assert.equal(__ow_query, 'a=1&a=2');
  assert.equal(Buffer.from(__ow_body, 'base64').toString(), '{"x":1}');
  assert.equal(a, undefined);
});

test('bytes go out as they are', async () => {
  const png = Buffer.from('89504e470d0a1a0a00ff', 'hex');
  await deploy('png', `function main() {
    return { headers: { 'Content-Type': 'image/png' }, body: '${png.toString('base64')}' }
  }`);
  const reply = await web('png');
  assert.equal(reply.headers.get('content-type'), 'image/png');
  assert.deepEqual(Buffer.from(await reply.arrayBuffer()), png);
});

test('the extension chooses the form', async () => {
  await deploy('forms', 'function main() { return { html: "<p>", svg: "<svg/>", text: [1] } }');
  for (const [extension, type, body] of [
    ['.html', 'text/html; charset=UTF-8', '<p>'],
    ['.svg', 'image/svg+xml', '<svg/>'],
    ['.text', 'text/plain; charset=UTF-8', '[\n  1\n]'],
    ['.json', 'application/json', '{"html":"<p>","svg":"<svg/>","text":[1]}'],
  ]) {
    const reply = await web(`forms${extension}`);
    assert.equal(reply.headers.get('content-type'), type);
    assert.equal(await reply.text(), body);
  }
  assert.equal((await web('forms.html', { headers: { accept: 'application/json' } })).status, 406);
});

test('errors of the action are answers, broken actions are not', async () => {
  await deploy('fails', 'function main() { return { error: { statusCode: 404, body: "none" } } }');
  const own = await web('fails');
  assert.deepEqual([own.status, await own.text()], [404, 'none']);
  await deploy('broken', 'function main() { throw new Error("boom") }');
  const broken = await web('broken');
  assert.equal(broken.status, 400);
  assert.equal((await broken.json()).error, 'There was an error processing your request.');
});

test('what is not exported is not there', async () => {
  await ow.actions.update({ name: 'closed', action: ECHO });
  for (const path of ['closed', 'none.json']) {
    const reply = await web(path);
    assert.equal(reply.status, 404);
    assert.equal((await reply.json()).error, 'The requested resource does not exist.');
  }
});

test('a key or a secret may be asked for', async () => {
  await deploy('keyed', ECHO, { 'require-whisk-auth': true });
  assert.equal((await web('keyed.json')).status, 401);
  const { __ow_user, __ow_headers } = await (await web('keyed.json', { headers: { authorization: basic } })).json();
  assert.equal(__ow_user, 'guest');
  assert.equal(__ow_headers.authorization, undefined);
  await deploy('secret', ECHO, { 'require-whisk-auth': 's3cret' });
  assert.equal((await web('secret.json', { headers: { authorization: basic } })).status, 401);
  assert.equal((await web('secret.json', { headers: { 'x-require-whisk-auth': 's3cret' } })).status, 200);
});

test('a preflight is answered by the platform, or by the action', async () => {
  await deploy('cors', 'function main() { return { headers: { "Access-Control-Allow-Methods": "GET" } } }');
  const headers = { 'access-control-request-headers': 'x-a' };
  const platform = await web('cors', { method: 'OPTIONS', headers });
  assert.equal(platform.status, 200);
  assert.equal(platform.headers.get('access-control-allow-headers'), 'x-a');
  assert.equal(platform.headers.get('x-openwhisk-activation-id'), null);
  await deploy('cors', 'function main() { return { headers: { "Access-Control-Allow-Methods": "GET" } } }', { 'web-custom-options': true });
  const own = await web('cors', { method: 'OPTIONS', headers });
  assert.equal(own.headers.get('access-control-allow-methods'), 'GET');
  assert.equal(own.headers.get('access-control-allow-origin'), null);
  assert.match(own.headers.get('x-openwhisk-activation-id'), /^[0-9a-f]{32}$/);
});

test('pages of other sites may call it, but not with a key, while that is the guest key', async () => {
  await deploy('anybody', 'function main() { return { body: "hi" } }');
  const origin = 'https://example.com';
  for (const method of ['OPTIONS', 'GET']) {
    const reply = await web('anybody', { method, headers: { origin } });
    assert.equal(reply.status, 200, method);
    assert.equal(reply.headers.get('access-control-allow-origin'), '*', method);
  }
  assert.equal((await fetch(`${server.url}/api/v1/namespaces`, { method: 'OPTIONS', headers: { origin } })).status, 200);
  for (const path of ['web/guest/default/anybody', 'namespaces']) {
    const reply = await fetch(`${server.url}/api/v1/${path}`, { headers: { origin, authorization: basic } });
    assert.equal(reply.status, 403, path);
  }
});

test('a large body is refused', async () => {
  await deploy('small', ECHO);
  const reply = await web('small.json', { method: 'POST', body: 'x'.repeat(1024 * 1024 + 1) });
  assert.equal(reply.status, 413);
  assert.match((await reply.json()).error, /^Request larger than allowed: \d+ > 1048576 bytes\.$/);
});

test('an action in a package has its address', async () => {
  await ow.packages.update({ name: 'pages', package: { parameters: [{ key: 'who', value: 'package' }] } });
  await ow.actions.update({ name: 'pages/hello', action: 'function main({ who }) { return { body: who } }', annotations: { 'web-export': true } });
  const reply = await fetch(`${server.url}/api/v1/web/guest/pages/hello`);
  assert.equal(await reply.text(), 'package');
});

test('a namespace has a host of its own', async () => {
  await ow.packages.update({ name: 'public', package: {} });
  await ow.actions.update({ name: 'public/index', action: 'function main() { return { html: "<h1>home</h1>" } }', annotations: { 'web-export': true } });
  // fetch does not let its caller choose the host.
  const home = await new Promise((resolve, reject) => {
    const headers = { host: `guest.localhost:${server.port}` };
    http.get({ host: '127.0.0.1', port: server.port, path: '/', headers }, async (reply) => {
      let body = '';
      for await (const piece of reply) body += piece;
      resolve([reply.statusCode, reply.headers['content-type'], body]);
    }).on('error', reject);
  });
  assert.deepEqual(home, [200, 'text/html; charset=UTF-8', '<h1>home</h1>']);
});
