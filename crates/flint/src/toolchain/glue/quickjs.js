// An event loop for QuickJS. Once the handler is loaded, nothing runs the jobs of the engine's own promises,
// so they are never settled; the handler therefore gets other promises, and timers. The build translates
// `async` functions to the global Promise.
import * as clocks from 'wasi:clocks/monotonic-clock@0.2.0';
import { arrayFromAsync } from './flint-async.js';
import { Loop } from './flint-loop.js';
import { definePromise } from './flint-promise.js';

const NANOSECONDS = 1e6; // in a millisecond
const clock = clocks.default ?? clocks;
let called = false;
let began;

const time = {
  // There is no clock while the handler is loaded: timers set then count from the beginning of the call.
  now() {
    if (!called) return 0;
    const now = clock.now() / NANOSECONDS;
    began ??= now;
    return now - began;
  },
  sleep(ms) {
    const pollable = clock.subscribeDuration(Math.ceil(ms * NANOSECONDS));
    pollable.block();
    pollable[Symbol.dispose]?.();
  },
};
const loop = new Loop(time);

const Native = globalThis.Promise;
const alone = new Map(); // promises that were rejected, and that nobody handles
const Promise = definePromise({
  enqueue: (job) => loop.enqueue(job),
  unhandled: (promise, reason) => alone.set(promise, reason),
  handled: (promise) => alone.delete(promise),
  foreign: (value) => (value instanceof Native ? new TypeError(
    "this promise is QuickJS's own, and those are never settled here. It is from an `async` function that was not translated: install esbuild (npm install --save-dev esbuild) and deploy again; or from `import()` of a name that is not written there, or from code that was made out of text",
  ) : undefined),
});

const globals = { Promise, ...loop.globals() };
for (const [name, value] of Object.entries(globals)) define(globalThis, name, value);
define(Array, 'fromAsync', arrayFromAsync);
delete globalThis.AsyncDisposableStack; // gives promises of the engine's own

function define(object, name, value) {
  Object.defineProperty(object, name, { value, writable: true, enumerable: false, configurable: true });
}

/** The end of loading: no job is left for the calls. Timers are. */
export function loaded() {
  loop.runJobs();
  for (const reason of alone.values()) throw reason;
}

/** One call, to its answer: `answered(value)` or `failed(error)`. What is left to run when the handler's promise is settled does not run. */
export function complete(call, answered, failed) {
  called = true;
  if (loop.waits) time.now();
  try {
    return answered(settled(call()));
  } catch (error) {
    return failed(error);
  } finally {
    for (const reason of alone.values()) console.error('a promise was rejected, and nothing handled it:', reason);
  }
}

function settled(answer) {
  if (typeof answer?.then !== 'function') {
    loop.runJobs();
    return answer;
  }
  let outcome;
  Promise.resolve(answer).then(
    (value) => { outcome = { value }; },
    (error) => { outcome = { error }; },
  );
  if (!loop.runUntil(() => outcome)) {
    throw new Error("the handler's promise never settles: no job and no timer is left that could settle it");
  }
  if ('error' in outcome) throw outcome.error;
  return outcome.value;
}
