'use strict';
// Makes `performance.now()`, `performance.timeOrigin` and `process.uptime()` count from the start of the clone.

const { performance } = require('perf_hooks');

const owner = Object.getPrototypeOf(performance);
const { now } = performance;
const { uptime } = process;
let shift = 0;
let uptimeShift = 0;

function install() {
  define(owner, 'now', { value: { now() { return now.call(this) - shift; } }.now });
  // In newer versions it is an accessor of the prototype, in older ones a value of the object.
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
