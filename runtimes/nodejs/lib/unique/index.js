'use strict';
// State that the clones of a zygote would share and must not: random generators, random bytes drawn in advance, the process id, the origin
// of time. Installed before user code is loaded, so that references which it captures are covered too.

const { syncBuiltinESMExports } = require('module');
const bytes = require('./bytes');
const clocks = require('./clocks');
const contexts = require('./contexts');
const random = require('./random');

/** Must be called before user code is loaded. */
function install() {
  random.install();
  bytes.install();
  clocks.install();
  contexts.install();
  syncBuiltinESMExports();
}

/** In a clone, before it runs user code. `entropy`: 64 hexadecimal digits. */
function renew(entropy, pid) {
  random.seed(entropy);
  bytes.renew();
  clocks.renew();
  contexts.renew();
  Object.defineProperty(process, 'pid', { value: pid, writable: false, enumerable: true, configurable: true });
}

/** Undoes `renew` in a zygote that has only rehearsed it. */
function unrenew() {
  random.seedFromSystem();
  bytes.unrenew();
  clocks.unrenew();
}

/** What clones have in common nevertheless, for the report. */
function notes() {
  return bytes.notes();
}

module.exports = { install, loaded: bytes.loaded, isEntropy: random.isEntropy, renew, unrenew, notes };
