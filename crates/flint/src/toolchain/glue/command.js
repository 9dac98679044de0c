// Around a handler that QuickJS runs: one call is one run of a WASI program. @FUNCTION@ and @MAIN@ are set at the build.
import { install, readAll, writeAll } from './flint-host.js';
import * as named from '@FUNCTION@';

const exported = named.default && typeof named.default === 'object' ? { ...named, ...named.default } : named;
const handler = [@MAIN@].map((name) => exported[name]).find((value) => typeof value === 'function')
  ?? (typeof named.default === 'function' ? named.default : undefined);
if (!handler) {
  throw new Error(`the code exports no function called ${[@MAIN@].join(' or ')}: it exports ${Object.keys(exported).join(', ') || 'nothing'}`);
}

export const run = {
  run() {
    install();
    try {
      const text = readAll();
      const answer = handler(text === '' ? {} : JSON.parse(text), {});
      if (typeof answer?.then === 'function') {
        throw new Error('the handler returned a promise, and this build of QuickJS has no event loop: make the handler synchronous, or run it without `--isolation wasm`');
      }
      writeAll('stdout', JSON.stringify(answer ?? {}));
    } catch (error) {
      writeAll('stderr', error instanceof Error ? `${error}\n${error.stack ?? ''}` : `${JSON.stringify(error)}\n`);
      throw undefined;
    }
  },
};
