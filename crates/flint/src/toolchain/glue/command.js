// Around a handler: one call is one run of a WASI program. What stands between @ is set at the build.
import { install, readAll, writeAll } from './flint-host.js';
import * as named from '@FUNCTION@';

const NAMES = [@MAIN@];
const WAITS = @WAITS@; // whether this engine has an event loop

const exported = named.default && typeof named.default === 'object' ? { ...named, ...named.default } : named;
const handler = NAMES.map((name) => exported[name]).find((value) => typeof value === 'function')
  ?? (typeof named.default === 'function' ? named.default : undefined);
if (!handler) {
  throw new Error(`the code exports no function called ${NAMES.join(' or ')}: it exports ${Object.keys(exported).join(', ') || 'nothing'}`);
}

const answered = (answer) => writeAll('stdout', JSON.stringify(answer ?? {}));
const failed = (error) => {
  writeAll('stderr', error instanceof Error ? `${error}\n${error.stack ?? ''}` : `${JSON.stringify(error)}\n`);
  throw undefined; // the error of a `result` without a value
};

export const run = {
  run() {
    install();
    try {
      const text = readAll();
      const answer = handler(text === '' ? {} : JSON.parse(text), {});
      if (typeof answer?.then !== 'function') return answered(answer);
      if (WAITS) return Promise.resolve(answer).then(answered).catch(failed);
      throw new Error('the handler returned a promise, and QuickJS has no event loop here: install @bytecodealliance/componentize-js beside the handler and deploy again, or make it synchronous, or run it without `--isolation wasm`');
    } catch (error) {
      return failed(error);
    }
  },
};
