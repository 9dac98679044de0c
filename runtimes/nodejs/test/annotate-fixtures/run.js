'use strict';
// Annotates the function given and says, as JSON on stdout, what the annotator reports and what V8 still does in the calls after it.
// Arguments: the function's file, and the options { requests, calls, budgetMs, before, after }.

const fs = require('fs');
const path = require('path');
const v8 = require('v8');
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

async function run(file, { requests, calls = 2000, budgetMs = 60000, before = 1, after = 100 }) {
  const { main } = await import(pathToFileURL(file));
  for (let i = 0; i < before; i++) for (const request of requests) await main(request); // as Flint does: warm-up calls come first
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
  fs.writeSync(1, 'annotated\n');
  const state = { tasks: tasks() - tasksBefore, hasNatives: hasNatives() };
  const trace = Trace.open();
  let later = null;
  if (trace !== null) {
    later = requests.length > 0 && after > 0 && await callAgain(main, requests, after, trace, report);
    trace.close();
  }
  return { report, tookMs, longestMs, ...state, later };
}

/** What V8 compiled and threw away of the function in the first call of each request, and in the following ones. */
async function callAgain(main, requests, after, trace, { functions }) {
  v8.setFlagsFromString('--trace-deopt');
  const short = (name) => name.replace(/^.*[. ]/, '');
  const names = new Set(functions.map(({ name }) => short(name === '(anonymous)' ? '' : name)));
  const ofUser = ({ name }) => names.has(short(name)); // the rest is Node's and this file's own
  const thrownAway = (text) => Array.from(text.matchAll(/^\[bailout .*?<JSFunction (?:(.*?) )?\(sfi.*/gm), ([line, name = '']) => ({ line, name }));
  const summary = (events) => [...events.compiled, ...events.replaced, ...thrownAway(events.text)].filter(ofUser).map(({ line }) => line);
  for (const request of requests) await main(request).catch(() => {});
  const first = summary(trace.read());
  for (let i = 0; i < after; i++) for (const request of requests) await main(request).catch(() => {});
  return { first, following: summary(trace.read()) };
}

run(process.argv[2], JSON.parse(process.argv[3])).then((outcome) => {
  fs.writeSync(1, `\n${JSON.stringify(outcome)}`); // behind what V8 may have printed since
  process.exit(0);
});
