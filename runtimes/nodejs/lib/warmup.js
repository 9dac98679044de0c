'use strict';
// The replay of the warm-up requests before the freeze.

const path = require('path');
const { Call } = require('./call');
const { Kind } = require('./frame');

const DEADLINE_MS = 60000;

/** What an answer is written to when nobody waits for it. */
class Nowhere {
  constructor(call) {
    this.call = call;
  }

  write() {}

  send(kind) {
    if (kind === Kind.BODY) this.call.unacknowledged = 0;
  }

  sendJson() {}
}

/** Runs a kept request like any call; resolves to `{ ok }` when it has ended. */
function replay(instance, { head, body }) {
  return new Promise((resolve) => {
    const call = new Call(0, { ...head, deadline: Date.now() + DEADLINE_MS });
    call.link = new Nowhere(call);
    call.onEnded = resolve;
    instance.calls.set(0, call);
    instance.run(call, body, 0, body.length, false);
  });
}

/** Replays until everything is optimised, or as often as `options` allow: `{ report, collected }`; `collected`: garbage has been, in full. */
async function run(instance, requests, { calls = 2000, budgetMs = 10000, annotate = true }, collect) {
  if (requests.length === 0 || calls === 0 || !annotate) return { report: await repeat(instance, requests, calls, budgetMs), collected: false };
  const report = await require('./annotate').annotate({
    replay: (i) => replay(instance, requests[i]),
    count: requests.length,
    calls,
    budgetMs,
    root: path.dirname(instance.file),
    collect,
  });
  return { report, collected: true };
}

/** Without an annotator: the calls alone. */
async function repeat(instance, requests, calls, budgetMs) {
  const begin = performance.now();
  let done = 0;
  while (requests.length > 0 && done < calls && performance.now() - begin < budgetMs) {
    await replay(instance, requests[done % requests.length]);
    done += 1;
  }
  return { warmupCalls: done, warmupMs: performance.now() - begin, functions: [], optimised: 0, reached: 0, notes: [] };
}

module.exports = { run };
