'use strict';
// What Node.js keeps in memory and two clones of a zygote would share: random generators, random bytes drawn ahead, the process id, the
// origin of time. Installed before user code is loaded, so that references which it captures are covered too.

const { syncBuiltinESMExports } = require('module');
const bytes = require('./bytes');
const clocks = require('./clocks');
const contexts = require('./contexts');
const random = require('./random');

/** Before user code is loaded. */
function install() {
  random.install();
  bytes.install();
  clocks.install();
  contexts.install();
  syncBuiltinESMExports();
}

/** In a clone, before user code runs in it. `entropy`: 64 hexadecimal digits. */
function renew(entropy, pid) {
  random.seed(entropy);
  bytes.renew();
  clocks.renew();
  contexts.renew();
  Object.defineProperty(process, 'pid', { value: pid, writable: false, enumerable: true, configurable: true });
}

/** Takes `renew` back in a zygote that has only practised it. */
function unrenew() {
  random.seedFromSystem();
  bytes.unrenew();
  clocks.unrenew();
}

/** What no clone can make its own, for the report. */
function notes() {
  return bytes.notes();
}

module.exports = { install, loaded: bytes.loaded, isEntropy: random.isEntropy, renew, unrenew, notes };
