'use strict';
// For test_zygote.py: what a clone finds of itself.

const fs = require('fs');
const flint = require('flint');

let count = 0;
const events = [];

flint.beforeSnapshot(() => {
  events.push('before 1');
  if (process.env.BEFORE === 'fails') throw new Error('cannot be frozen');
});
flint.beforeSnapshot(async () => { events.push('before 2'); });
flint.afterRestore(() => {
  events.push('after 1');
  if (process.env.AFTER === 'fails') throw new Error('cannot be restored');
});
flint.afterRestore(async () => {
  await new Promise((resolve) => { setTimeout(resolve, Number(process.env.SLOW_MS || 0)); });
  events.push('after 2');
});

function descriptors() {
  const found = {};
  for (const fd of fs.readdirSync('/proc/self/fd')) {
    try {
      found[fd] = fs.readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      // the one the list was read with
    }
  }
  return found;
}

const answers = {
  count: () => ({ count: ++count }),
  events: () => ({ events }),
  descriptors: () => ({ descriptors: descriptors() }),
  pid: () => ({ pid: process.pid }),
  environment: () => ({ environment: { ...process.env } }),
  write: ({ text }) => { console.log(text); console.error(text); return {}; },
  signal: ({ pid }) => {
    try {
      process.kill(pid, 0);
      return { error: null };
    } catch (error) {
      return { error: error.code };
    }
  },
};

exports.main = (params) => answers[params.do || 'count'](params);
