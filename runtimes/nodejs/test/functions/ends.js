'use strict';
// The ways in which a function can end its process, and what debugging it does.

process.on('exit', (status) => console.log(`exit ${status}`));

const never = new Promise(() => {});

const ways = {
  exit() { process.exit(7); },
  async unref() {
    await new Promise((resolve) => { setTimeout(resolve, 20); });
    for (const handle of process._getActiveHandles()) handle.unref();
    return {};
  },
  throw() {
    setTimeout(() => { throw new Error('thrown'); }, 1);
    return never;
  },
  reject() {
    Promise.reject(new Error('rejected'));
    return never;
  },
  unlisten() {
    process.removeAllListeners('uncaughtException');
    return ways.throw();
  },
  abort() { process.abort(); },
  session() {
    const session = new (require('inspector').Session)();
    session.connect();
    return new Promise((resolve) => {
      session.post('Runtime.evaluate', { expression: '1 + 1' }, (_, { result }) => resolve({ value: result.value }));
    });
  },
  inspector() {
    const inspector = require('inspector');
    inspector.open(0);
    const url = inspector.url();
    inspector.close();
    return { url };
  },
};

exports.main = (params) => ways[params.do]();
