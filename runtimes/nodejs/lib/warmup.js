'use strict';
// Replays the warm-up requests before the freeze, through exactly the path of a call from the link: V8 specialises code for the object
// shapes that it has seen, and a clone's first call must not bring others.

const fs = require('fs');
const path = require('path');
const { Kind, payloadWithHead } = require('./frame');

const DEADLINE_MS = 60000;
const BUDGET_MS = 10000;
const GRACE_MS = 1000;

/** The approximate time budget for everything before the freeze. */
function budget(options) {
  return options.budgetMs ?? BUDGET_MS;
}

/** A warm-up request as the payload of an INVOKE without the warm-up mark. */
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

/** Runs the warm-up with the answers discarded. */
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

/**
 * Replays until everything is optimised, within `options`. Returns `{ report, collected }`; `collected` says whether there has been a full
 * collection.
 */
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

/** Without the annotator: only makes the calls. */
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
