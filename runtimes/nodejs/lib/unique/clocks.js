'use strict';
// Makes `process.uptime()` count from the start of the clone. `performance.now()` goes on from the zygote's start: libraries keep readings of
// it (lru-cache), and what a warm-up has cached must not be younger in a clone than it is.

const { uptime } = process;
let shift = 0;

function install() {
  process.uptime = () => uptime() - shift;
}

function renew() {
  shift = uptime();
}

function unrenew() {
  shift = 0;
}

module.exports = { install, renew, unrenew };
