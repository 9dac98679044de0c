// The files of the glue around JavaScript handlers that need no Wasm, in Node.js.
import { readFile } from 'node:fs/promises';

const FOLDER = new URL('../../../crates/flint/src/toolchain/glue/', import.meta.url);

const load = async (name) => {
  const text = await readFile(new URL(name, FOLDER), 'utf8');
  return import(`data:text/javascript,${encodeURIComponent(text)}`);
};

export const { Loop } = await load('loop.js');
export const { definePromise } = await load('promise.js');
export const { arrayFromAsync } = await load('async.js');

/** A loop on a clock that only sleeping moves, and a Promise on that loop. */
export function surroundings() {
  const clock = { at: 0, slept: [] };
  const loop = new Loop({
    now: () => clock.at,
    sleep(ms) {
      clock.slept.push(ms);
      clock.at += ms;
    },
  });
  const alone = new Map();
  const Promise = definePromise({
    enqueue: (job) => loop.enqueue(job),
    unhandled: (promise, reason) => alone.set(promise, reason),
    handled: (promise) => alone.delete(promise),
    foreign: (value) => (value instanceof globalThis.Promise ? new TypeError('not ours') : undefined),
  });
  return { clock, loop, alone, Promise, ...loop.globals() };
}
