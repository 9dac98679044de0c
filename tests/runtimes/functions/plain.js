'use strict';
// What every call can be asked to do: params.do.

const fs = require('fs');

let calls = 0;

function memory() {
  const text = fs.readFileSync('/proc/self/smaps_rollup', 'utf8');
  const kib = (name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)[1]);
  return { rss: kib('Rss'), private: kib('Private_Clean') + kib('Private_Dirty') };
}

const ways = {
  hello({ who }) {
    calls += 1;
    return { greeting: `Hello ${who}`, version: process.versions.node, calls };
  },
  log({ text }) {
    console.log(`${text} to stdout`);
    console.error(`${text} to stderr`);
    return {};
  },
  fail() { throw new RangeError('thrown on purpose'); },
  exit() { process.exit(3); },
  loop() { for (;;); },
  memory,
};

exports.main = (params) => ways[params.do](params);
