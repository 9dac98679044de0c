// Wraps a handler: one call is one run of a WASI program. Names between @ are replaced by the build.
import { install, readAll, writeAll } from './flint-host.js';
import { complete, loaded } from './flint-engine.js';
import * as named from '@FUNCTION@';

const NAMES = [@MAIN@];

const exported = named.default && typeof named.default === 'object' ? { ...named, ...named.default } : named;
const handler = NAMES.map((name) => exported[name]).find((value) => typeof value === 'function')
  ?? (typeof named.default === 'function' ? named.default : undefined);
if (!handler) {
  throw new Error(`the code exports no function called ${NAMES.join(' or ')}: it exports ${Object.keys(exported).join(', ') || 'nothing'}`);
}
loaded();

const called = () => {
  const text = readAll();
  return handler(text === '' ? {} : JSON.parse(text), {});
};
const answered = (answer) => writeAll('stdout', JSON.stringify(answer ?? {}));
const failed = (error) => {
  writeAll('stderr', error instanceof Error ? `${error}\n${error.stack ?? ''}` : `${JSON.stringify(error)}\n`);
  throw undefined; // the error of a `result` without a value
};

export const run = {
  run() {
    install();
    return complete(called, answered, failed);
  },
};
