'use strict';
// Annotates the function given and says, as JSON on stdout, what the annotator reports and what V8 still does in the calls after it.
// Arguments: the function's file, and the options { requests, calls, budgetMs, after }.

const fs = require('fs');
const path = require('path');
const { pathToFileURL } = require('url');
const { annotate } = require('../../lib/annotate');
const { Trace } = require('../../lib/annotate/trace');

const tasks = () => fs.readdirSync('/proc/self/task').length;

function hasNatives() {
  try {
    new Function('f', 'return %GetOptimizationStatus(f)');
    return true;
  } catch {
    return false;
  }
}

async function run(file, { requests, calls = 2000, budgetMs = 10000, after = 100 }) {
  const { main } = await import(pathToFileURL(file));
  const tasksBefore = tasks();
  const began = performance.now();
  let longestMs = 0;
  const replay = async (i) => {
    const start = performance.now();
    try {
      return await main(requests[i]);
    } finally {
      longestMs = Math.max(longestMs, performance.now() - start);
    }
  };
  const report = await annotate({ replay, count: requests.length, calls, budgetMs, root: path.dirname(file) });
  const tookMs = performance.now() - began;
  const state = { tasks: tasks() - tasksBefore, hasNatives: hasNatives() };
  const trace = Trace.open();
  let later = null;
  if (trace !== null) {
    trace.withReasons(true);
    later = requests.length > 0 && after > 0 && await callAgain(main, requests, after, trace);
    trace.close();
  }
  return { report, tookMs, longestMs, ...state, later };
}

/** The first call of each request and the following ones apart: what V8 compiled and threw away in them. */
async function callAgain(main, requests, after, trace) {
  const results = [];
  for (const request of requests) results.push(await main(request).catch((error) => ({ error: error.message })));
  const first = summary(trace.read());
  for (let i = 0; i < after; i++) for (const request of requests) await main(request).catch(() => {});
  return { results, first, following: summary(trace.read()) };
}

function summary({ compiled, thrownAway }) {
  return { compiled: compiled.map(({ line }) => line), thrownAway: thrownAway.map(({ line }) => line) };
}

run(process.argv[2], JSON.parse(process.argv[3])).then((outcome) => {
  fs.writeSync(1, JSON.stringify(outcome));
  process.exit(0);
});
