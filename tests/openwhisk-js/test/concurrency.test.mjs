// limits.concurrency: several calls at once in one instance, each with a log of its own.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server, failure, record } from '../lib/server.mjs';

const CALLS = 6;
const LINES = 30;
let server;
let ow;
before(async () => {
  server = await Server.start({ FLINT_LIMITS__MAX_CONCURRENCY: String(CALLS) });
  ow = server.client();
});
after(() => server.stop());

// A call ends only when all of them are there: it proves that they run at once in one process.
const SOURCES = {
  'nodejs:default': {
    code: `
const here = [];
exports.main = async ({ n, calls, lines }) => {
  await new Promise((resolve) => { here.push(resolve); if (here.length === calls) here.splice(0).forEach((go) => go()); });
  for (let line = 0; line < lines; line += 1) {
    await new Promise((resolve) => setTimeout(resolve, line % 3));
    console.log(n + ' out ' + line);
    Promise.resolve().then(() => console.error(n + ' err ' + line));
  }
  await new Promise((resolve) => setTimeout(resolve, 5));
  return { n, pid: process.pid };
};`,
  },
  'python:default': {
    code: `
import asyncio, os, sys
here = []
async def main(args):
    event = asyncio.Event()
    here.append(event)
    if len(here) == args["calls"]:
        for other in here:
            other.set()
        here.clear()
    await event.wait()
    for line in range(args["lines"]):
        await asyncio.sleep(0)
        print(args["n"], "out", line)
        print(args["n"], "err", line, file=sys.stderr)
    return {"n": args["n"], "pid": os.getpid()}
`,
  },
};

for (const [kind, { code }] of Object.entries(SOURCES)) {
  test(`${kind}: calls at once in one instance have their own answers and logs`, async (t) => {
    const [family] = kind.split(':');
    if (server.runtimes[family].every((runtime) => runtime.unavailable)) {
      t.skip(`no runtime of the family ${family} on this host`);
      return;
    }
    const name = `together-${family}`;
    await ow.actions.create({ name, action: code, kind, limits: { concurrency: CALLS } });
    assert.equal((await ow.actions.get({ name })).limits.concurrency, CALLS);
    // Alone first, so that one instance is up when they come together.
    await ow.actions.invoke({ name, blocking: true, result: true, params: { n: -1, calls: 1, lines: 1 } });
    const calls = Array.from({ length: CALLS }, (_, n) => ow.actions.invoke({ name, blocking: true, params: { n, calls: CALLS, lines: LINES } }));
    for (const [n, answer] of (await Promise.all(calls)).entries()) {
      assert.equal(answer.response.result.n, n);
      const { logs } = await record(ow, answer.activationId);
      for (const [stream, word] of [['stdout', 'out'], ['stderr', 'err']]) {
        const lines = logs.filter((line) => line.includes(` ${stream}: `)).map((line) => line.split(`${stream}: `)[1]);
        assert.deepEqual(lines, Array.from({ length: LINES }, (_, line) => `${n} ${word} ${line}`));
      }
    }
  });
}

test('more than the configuration allows is refused', async () => {
  const error = await failure(ow.actions.create({ name: 'many', action: 'exports.main = () => ({})', limits: { concurrency: CALLS + 1 } }));
  assert.equal(error.statusCode, 400);
  assert.match(error.error.error, new RegExp(`concurrency ${CALLS + 1} exceeds allowed threshold of ${CALLS}`));
});

test('a program that speaks ActionLoop serves one call at a time, and says so', async () => {
  const body = { exec: { kind: 'blackbox', image: 'openwhisk/actionloop-base', code: '#!/bin/bash\n' }, limits: { concurrency: 2 } };
  const put = await server.raw('PUT', 'actions/loop', { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  assert.equal(put.status, 400);
  assert.match((await put.json()).error, /concurrency 2 with the contract actionloop/);
});
