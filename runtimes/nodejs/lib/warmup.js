'use strict';
// The replay of the warm-up requests before the freeze. They take the very path of a call that comes over the link: V8 optimises for
// the shapes of the objects it has seen, and a clone's first call must not bring others.

const fs = require('fs');
const path = require('path');
const { Kind, payloadWithHead } = require('./frame');

const DEADLINE_MS = 60000;
const BUDGET_MS = 10000;
const GRACE_MS = 1000;

/** How long everything before the freeze may take, about. */
function budget(options) {
  return options.budgetMs ?? BUDGET_MS;
}

/** A warm-up request as the payload of an INVOKE that has no mark of a warm-up. */
function toPayload({ head: { warmup, ...head }, body }) {
  return payloadWithHead({ ...head, deadline: Date.now() + DEADLINE_MS }, body);
}

/** Runs a kept request like any call; resolves to `{ ok }` when it has ended. */
function replay(instance, request) {
  return new Promise((resolve) => {
    const payload = toPayload(request);
    instance.onReplayed = (outcome) => {
      instance.onReplayed = null;
      resolve(outcome);
    };
    instance.onFrame(Kind.INVOKE, true, 1, payload, 0, payload.length, false);
  });
}

/** With the answers going nowhere. */
async function run(instance, requests, options, tools) {
  const { link } = instance;
  link.fd = fs.openSync('/dev/null', 'w');
  instance.state = 'ready';
  let watchdog;
  const stuck = new Promise((_, reject) => {
    const limit = budget(options) + GRACE_MS;
    watchdog = setTimeout(() => reject(new Error(`A warm-up call has not ended ${limit} ms after the freeze began.`)), limit);
  });
  try {
    return await Promise.race([runAll(instance, requests, options, tools), stuck]);
  } finally {
    clearTimeout(watchdog);
    fs.closeSync(link.fd);
    link.fd = link.home;
    instance.state = 'freezing';
  }
}

/** Replays until everything is optimised, or as often as `options` allow: `{ report, collected }`; `collected`: garbage has been, in full. */
async function runAll(instance, requests, { calls = 2000, budgetMs = BUDGET_MS, annotate = true }, { collect, practise }) {
  if (requests.length === 0 || calls === 0 || !annotate) return { report: await repeat(instance, requests, calls, budgetMs), collected: false };
  const report = await require('./annotate').annotate({
    replay: (i) => replay(instance, requests[i]),
    count: requests.length,
    calls,
    budgetMs,
    root: path.dirname(instance.file),
    collect,
    relearn: practise,
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

module.exports = { budget, run };
