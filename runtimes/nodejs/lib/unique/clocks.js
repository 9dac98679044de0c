'use strict';
// `performance.now()`, `performance.timeOrigin` and `process.uptime()` count from a clone's beginning.

const { performance } = require('perf_hooks');

const owner = Object.getPrototypeOf(performance);
const { now } = performance;
const { uptime } = process;
let shift = 0;
let uptimeShift = 0;

function install() {
  define(owner, 'now', { value: { now() { return now.call(this) - shift; } }.now });
  // An accessor of the prototype in newer versions, a value of the object in older ones.
  const accessor = Object.getOwnPropertyDescriptor(owner, 'timeOrigin');
  if (accessor && accessor.get) {
    define(owner, 'timeOrigin', { get() { return accessor.get.call(this) + shift; } });
  } else {
    const { timeOrigin } = performance;
    Object.defineProperty(performance, 'timeOrigin', { get: () => timeOrigin + shift, enumerable: true, configurable: true });
  }
  process.uptime = () => uptime() - uptimeShift;
}

function define(object, name, change) {
  const { value, writable, ...rest } = Object.getOwnPropertyDescriptor(object, name) || { enumerable: true, configurable: true };
  Object.defineProperty(object, name, change.get ? { ...rest, ...change } : { writable: true, ...rest, ...change });
}

function renew() {
  shift = now.call(performance);
  uptimeShift = uptime();
}

function unrenew() {
  shift = 0;
  uptimeShift = 0;
}

module.exports = { install, renew, unrenew };
