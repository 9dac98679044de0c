'use strict';
// What Node.js keeps in memory and two clones of a zygote would share: random generators, caches of random bytes, the process id,
// the origin of time. Installed before user code is loaded, so that references which it captures are covered too.

const crypto = require('crypto');
const { syncBuiltinESMExports } = require('module');
const { performance } = require('perf_hooks');

const { randomFillSync } = crypto;
const { defineProperty } = Object;
const { now: hrtimeNow } = performance;
const MAX_RANGE = 2 ** 48 - 1;

// xoshiro128**, two steps for one double.
const state = new Int32Array(4);

function step() {
  const s0 = state[0];
  const s1 = state[1];
  const s3 = state[3];
  const m = Math.imul(s1, 5);
  const result = Math.imul((m << 7) | (m >>> 25), 9);
  const s2 = state[2] ^ s0;
  const t3 = s3 ^ s1;
  state[1] = s1 ^ s2;
  state[0] = s0 ^ t3;
  state[2] = s2 ^ (s1 << 9);
  state[3] = (t3 << 11) | (t3 >>> 21);
  return result;
}

function random() {
  const high = step() >>> 5;
  return (high * 67108864 + (step() >>> 6)) / 9007199254740992;
}

/** In a zygote nothing may fill Node's caches of random bytes: the clones would all serve themselves from the same. */
let frozenLater = true;
let timeShift = 0;
let uptimeShift = 0;

function uncached(original) {
  return function randomUUID(options) {
    if (!frozenLater) return original.call(this, options);
    if (options === undefined) return original.call(this, { disableEntropyCache: true });
    if (options === null || typeof options !== 'object' || options.disableEntropyCache) return original.call(this, options);
    return original.call(this, { ...options, disableEntropyCache: true });
  };
}

/** Whole numbers below `range`, evenly, from fresh bytes. */
function below(range) {
  const bytes = Buffer.allocUnsafe(6);
  const limit = 2 ** 48 - (2 ** 48 % range);
  for (;;) {
    randomFillSync(bytes);
    const value = bytes.readUIntBE(0, 6);
    if (value < limit) return value % range;
  }
}

function uncachedInt(original) {
  return function randomInt(min, max, callback) {
    if (!frozenLater) return original.call(this, min, max, callback);
    const one = max === undefined || typeof max === 'function';
    const [low, high, done] = one ? [0, min, max] : [min, max, callback];
    const good = Number.isSafeInteger(low) && Number.isSafeInteger(high) && high > low && high - low <= MAX_RANGE && (done === undefined || typeof done === 'function');
    if (!good) return original.call(this, min, max, callback); // which says what is wrong
    const value = low + below(high - low);
    if (done === undefined) return value;
    process.nextTick(done, undefined, value);
    return undefined;
  };
}

function replace(owner, name, value) {
  if (owner !== undefined && owner[name] !== undefined) defineProperty(owner, name, { ...Object.getOwnPropertyDescriptor(owner, name), value });
}

/** Before user code is loaded. */
function install() {
  randomFillSync(state);
  replace(Math, 'random', random);
  replace(crypto, 'randomUUID', uncached(crypto.randomUUID));
  replace(crypto, 'randomInt', uncachedInt(crypto.randomInt));
  const web = crypto.webcrypto && Object.getPrototypeOf(crypto.webcrypto);
  if (web) {
    const original = web.randomUUID;
    replace(web, 'randomUUID', function randomUUID() { // takes no options: Node's own stands in
      return frozenLater && this === crypto.webcrypto ? crypto.randomUUID.call(crypto) : original.call(this);
    });
  }
  installClocks();
  syncBuiltinESMExports();
}

/** `performance.now()`, `timeOrigin` and `process.uptime()` count from the clone's beginning. */
function installClocks() {
  const owner = Object.getPrototypeOf(performance);
  const { uptime } = process;
  replace(owner, 'now', function now() { return hrtimeNow.call(this) - timeShift; });
  const origin = Object.getOwnPropertyDescriptor(owner, 'timeOrigin');
  if (origin && origin.get) {
    defineProperty(owner, 'timeOrigin', { ...origin, get() { return origin.get.call(this) + timeShift; } });
  } else if (Object.getOwnPropertyDescriptor(performance, 'timeOrigin')) {
    const value = performance.timeOrigin;
    defineProperty(performance, 'timeOrigin', { get: () => value + timeShift, configurable: true, enumerable: true });
  }
  process.uptime = () => uptime() - uptimeShift;
}

/** In a clone, before user code runs in it. `entropy`: 64 hexadecimal digits. */
function renew(entropy, pid) {
  for (let i = 0; i < 4; i++) state[i] = parseInt(entropy.slice(i * 8, i * 8 + 8), 16) ^ parseInt(entropy.slice(32 + i * 8, 40 + i * 8), 16);
  if ((state[0] | state[1] | state[2] | state[3]) === 0) state[0] = 1; // the generator's one fixed point
  frozenLater = false;
  const shift = hrtimeNow.call(performance);
  uptimeShift += (shift - timeShift) / 1000;
  timeShift = shift;
  defineProperty(process, 'pid', { value: pid, writable: false, enumerable: true, configurable: true });
}

/** Takes `renew` back in a zygote that has only practised it. */
function unrenew() {
  timeShift = 0;
  uptimeShift = 0;
  frozenLater = true;
  randomFillSync(state);
}

module.exports = { install, renew, unrenew };
