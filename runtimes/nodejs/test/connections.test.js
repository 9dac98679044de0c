'use strict';
// What becomes of connections that were opened before a freeze.

const assert = require('assert');
const http = require('http');
const test = require('node:test');
const { promisify } = require('util');
const { releaseConnections } = require('../lib/connections');

const DISPATCHERS = [2, 1].map((version) => Symbol.for(`undici.globalDispatcher.${version}`));

async function serving(t) {
  const server = http.createServer((request, response) => response.end('fine')).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await new Promise((resolve) => { server.once('listening', resolve); });
  const open = promisify(server.getConnections.bind(server));
  return {
    get: async () => (await fetch(`http://127.0.0.1:${server.address().port}/`)).text(),
    open,
    /** Resolves when it has no connection any more. */
    async closed() {
      while (await open() > 0) await new Promise((resolve) => { setTimeout(resolve, 5); });
    },
  };
}

test('connections that fetch keeps are closed, and it goes on', async (t) => {
  const server = await serving(t);
  assert.strictEqual(await server.get(), 'fine');
  assert.strictEqual(await server.open(), 1);
  releaseConnections();
  await server.closed();
  assert.strictEqual(await server.get(), 'fine');
  releaseConnections();
  await server.closed();
});

test('a dispatcher that the function has made stays, with its options', async (t) => {
  const server = await serving(t);
  await server.get();
  const name = DISPATCHERS.find((each) => globalThis[each] !== undefined);
  const before = globalThis[name];
  const own = new before.constructor({ keepAliveTimeout: 1000 });
  globalThis[name] = own;
  t.after(async () => {
    globalThis[name] = before;
    await own.destroy();
    releaseConnections();
  });
  releaseConnections();
  assert.strictEqual(globalThis[name], own);
  assert.strictEqual(await server.get(), 'fine');
  assert.strictEqual(own.destroyed, false);
});
