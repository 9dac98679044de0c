// The API gateway through the client's `routes`, and the APIs themselves by plain HTTP.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server, failure } from '../lib/server.mjs';

const ECHO = 'function main(params) { return params }';
let server;
let ow;
before(async () => {
  server = await Server.start();
  ow = server.client({ apigw_token: 'DUMMY TOKEN', apigw_space_guid: '23bc46b1-71f6-4ed5-8c54-816aa4f8c502' });
  await ow.actions.update({ name: 'echo', action: ECHO, annotations: { 'web-export': true } });
});
after(() => server.stop());

test('a route is created, listed, served and deleted', async () => {
  const created = await ow.routes.create({ action: 'echo', basepath: '/hello', relpath: '/world', operation: 'GET', name: 'Hello' });
  assert.equal(created.gwApiActivated, true);
  assert.equal(created.apidoc.basePath, '/hello');
  assert.equal(created.apidoc.paths['/world'].get['x-openwhisk'].action, 'echo');
  const reply = await fetch(`${created.gwApiUrl}/world?a=1`);
  assert.equal(reply.status, 200);
  assert.equal((await reply.json()).a, '1');

  for (const found of [await ow.routes.list(), await ow.routes.get({ basepath: '/hello' }), await ow.routes.get({ name: 'Hello' })]) {
    assert.deepEqual(found.apis.map((api) => api.value.gwApiUrl), [created.gwApiUrl]);
  }
  assert.deepEqual((await ow.routes.list({ basepath: '/none' })).apis, []);

  await ow.routes.delete({ basepath: '/hello' });
  assert.deepEqual((await ow.routes.list()).apis, []);
  assert.equal((await fetch(`${created.gwApiUrl}/world`)).status, 404);
  assert.equal((await failure(ow.routes.delete({ basepath: '/hello' }))).statusCode, 404);
});

test('an operation has a method, a path with parameters and a form of its own', async () => {
  const route = { basepath: '/club', action: 'echo', responsetype: 'json' };
  await ow.routes.create({ ...route, relpath: '/books', operation: 'get' });
  const { gwApiUrl } = await ow.routes.create({ ...route, relpath: '/books/{isbn}', operation: 'put' });
  const book = await fetch(`${gwApiUrl}/books/978-0`, { method: 'PUT', body: '{"title":"t"}', headers: { 'content-type': 'application/json' } });
  const given = await book.json();
  assert.deepEqual([given.__ow_path, given.title, given.__ow_method], ['/club/books/978-0', 't', 'put']);
  const wrong = await fetch(`${gwApiUrl}/books`, { method: 'POST' });
  assert.deepEqual([wrong.status, wrong.headers.get('allow')], [405, 'GET']);
  await ow.routes.delete({ basepath: '/club', relpath: '/books', operation: 'get' });
  assert.equal((await fetch(`${gwApiUrl}/books`)).status, 404);
});

test('a Swagger document becomes an API, also one that was exported', async () => {
  const swagger = JSON.stringify({
    swagger: '2.0',
    basePath: '/imported',
    info: { title: 'Imported', version: '1.0.0' },
    paths: { '/e': { get: { operationId: 'e', 'x-openwhisk': { namespace: '_', package: 'default', action: 'echo', url: 'https://x/api/v1/web/_/default/echo.json' } } } },
  });
  const { gwApiUrl } = await ow.routes.create({ swagger });
  assert.equal((await fetch(`${gwApiUrl}/e`)).status, 200);
  const [{ value }] = (await ow.routes.get({ basepath: '/imported' })).apis;
  value.apidoc.paths['/again'] = value.apidoc.paths['/e'];
  await ow.routes.create({ swagger: JSON.stringify(value.apidoc) });
  assert.equal((await fetch(`${gwApiUrl}/again`)).status, 200);
});

test('only web actions may stand behind a route', async () => {
  await ow.actions.update({ name: 'closed', action: ECHO });
  const error = await failure(ow.routes.create({ action: 'closed', basepath: '/c', relpath: '/c', operation: 'get' }));
  assert.equal(error.statusCode, 400);
  assert.match(error.error.error, /is not a web action/);
});
