'use strict';
// Random bytes that are drawn ahead: Node.js's own caches behind randomUUID and randomInt, and the pools of libraries (uuid, nanoid, uid).
// OpenSSL itself notices a fork.

const crypto = require('crypto');

const { randomFillSync } = crypto;
const MAX_RANGE = 2 ** 48 - 1;
// uuid draws 256 bytes, nanoid 128 ids at once; keys, salts and nonces are shorter.
const POOL_AT_LEAST = 128;
const POOL_AT_MOST = 64 * 1024;
// What randomBytes has made is held, a little of each size and not more on the whole than every clone can fill again.
const MADE_AT_MOST = 16 * 1024;
const MADE_OF_A_SIZE = 8;
const MADE_IN_ALL = 128 * 1024;
const NOTED = 64;
// So many identifiers Node.js draws at once.
const BATCH = 128;
const FEW = 8;

/** In a zygote nothing may fill Node's caches: the clones would all serve themselves from the same. */
let inZygote = true;
/** The buffers that a zygote has filled: how often, and weakly which. */
const fills = new WeakMap();
let filled = [];
let filledAtLoad = [];
/**
 * The latest buffers that `randomBytes` has made of each size that a pool has: a library (uid) keeps the last one. They are held, since a WeakRef
 * would hold on to all of them until the turn of the event loop ends. The sizes drawn last come last.
 */
const made = new Map();
let madeBytes = 0;
/** Shorter ones that were made while the function is loaded; `null` once it is. */
let shortOnes = [];

function replace(owner, name, wrap) {
  const descriptor = owner && Object.getOwnPropertyDescriptor(owner, name);
  if (descriptor === undefined || typeof descriptor.value !== 'function') return;
  Object.defineProperty(owner, name, { ...descriptor, value: wrap(descriptor.value) });
}

function install() {
  // Both take their bytes from the same cache.
  for (const name of ['randomUUID', 'randomUUIDv7']) replace(crypto, name, uncachedUuid);
  replace(crypto, 'randomInt', uncachedInt);
  replace(crypto, 'randomBytes', making);
  replace(crypto, 'randomFillSync', watched);
  replace(crypto, 'randomFill', watchedLater);
  const web = crypto.webcrypto && Object.getPrototypeOf(crypto.webcrypto);
  replace(web, 'getRandomValues', watched); // behind crypto.getRandomValues, too
  const { randomUUID } = crypto;
  replace(web, 'randomUUID', (original) => function () {
    return this === crypto.webcrypto ? randomUUID() : original.call(this);
  });
}

/** In a clone, too, until it is seen that it wants many: Node.js itself may have filled the cache in the zygote (`URL.createObjectURL`), which is used up then. */
function uncachedUuid(original) {
  let drawn = 0;
  return { [original.name](options) {
    if (!inZygote && drawn >= FEW) return original.call(this, options);
    if (options !== undefined && (options === null || typeof options !== 'object' || options.disableEntropyCache)) return original.call(this, options);
    if (!inZygote && ++drawn === FEW) for (let i = 0; i < BATCH; i++) original.call(this);
    return original.call(this, { ...options, disableEntropyCache: true });
  } }[original.name];
}

function uncachedInt(original) {
  return function randomInt(min, max, callback) {
    if (!inZygote) return original.call(this, min, max, callback);
    const short = max === undefined || typeof max === 'function';
    const [low, high, done] = short ? [0, min, max] : [min, max, callback];
    const good = Number.isSafeInteger(low) && Number.isSafeInteger(high) && high > low && high - low <= MAX_RANGE && (done === undefined || typeof done === 'function');
    if (!good) return original.call(this, min, max, callback); // which says what is wrong
    const value = low + below(high - low);
    if (done === undefined) return value;
    process.nextTick(done, undefined, value);
    return undefined;
  };
}

/** Whole numbers below `range`, evenly, from fresh bytes. */
function below(range) {
  const drawn = Buffer.allocUnsafe(6);
  const limit = 2 ** 48 - (2 ** 48 % range);
  for (;;) {
    randomFillSync(drawn);
    const value = drawn.readUIntBE(0, 6);
    if (value < limit) return value % range;
  }
}

function making(original) {
  return function randomBytes(size, callback) {
    if (!inZygote) return original.call(this, size, callback);
    if (typeof callback !== 'function') return make(original.call(this, size, callback));
    return original.call(this, size, function made(error, buffer) {
      if (buffer !== undefined) make(buffer);
      callback.call(this, error, buffer);
    });
  };
}

function make(buffer) {
  const size = buffer.byteLength;
  if (size < POOL_AT_LEAST) {
    if (shortOnes !== null && shortOnes.length < NOTED) shortOnes.push(buffer);
  } else if (size <= MADE_AT_MOST) {
    const latest = made.get(size) || [];
    made.delete(size);
    made.set(size, latest);
    latest.push(buffer);
    madeBytes += size;
    if (latest.length > Math.max(1, Math.min(MADE_OF_A_SIZE, MADE_AT_MOST / size))) {
      latest.shift();
      madeBytes -= size;
    }
    while (madeBytes > MADE_IN_ALL) forgetOldest();
  }
  return buffer;
}

function forgetOldest() {
  const [size, latest] = made.entries().next().value;
  made.delete(size);
  madeBytes -= size * latest.length;
}

function watchedLater(original) {
  return function randomFill(buffer, ...rest) {
    const result = original.call(this, buffer, ...rest);
    if (inZygote && ArrayBuffer.isView(buffer) && rest.length === 1) watch(buffer);
    return result;
  };
}

function watched(original) {
  return { [original.name](buffer, ...rest) {
    const result = original.call(this, buffer, ...rest);
    if (inZygote && ArrayBuffer.isView(buffer) && rest.length === 0) watch(buffer);
    return result;
  } }[original.name];
}

function watch(buffer) {
  const times = fills.get(buffer) || 0;
  fills.set(buffer, times + 1);
  if (times > 0) return;
  filled.push(new WeakRef(buffer));
  if (filled.length % 1024 === 0) filled = filled.filter((held) => held.deref() !== undefined);
}

/** A pool is filled again and again, or is at least larger than what anybody draws for its own sake. */
function isPool(buffer) {
  return fills.get(buffer) > 1 || (buffer.byteLength >= POOL_AT_LEAST && buffer.byteLength <= POOL_AT_MOST);
}

function held(buffers) {
  return buffers.map((weak) => weak.deref()).filter((buffer) => buffer !== undefined);
}

function renew() {
  inZygote = false;
  for (const buffer of held(filled)) if (isPool(buffer)) randomFillSync(buffer);
  for (const latest of made.values()) for (const buffer of latest) randomFillSync(buffer);
}

function unrenew() {
  inZygote = true;
}

/** The function is loaded: what it has drawn by now it may keep for good. */
function loaded() {
  filledAtLoad = filled.concat((shortOnes || []).map((buffer) => new WeakRef(buffer)));
  shortOnes = null;
}

function notes() {
  const kept = held(filledAtLoad).filter((buffer) => !isPool(buffer)).length;
  if (kept === 0) return [];
  return [`${kept === 1 ? 'One buffer' : `${kept} buffers`} of random bytes drawn while the function was loaded ${kept === 1 ? 'is' : 'are'} the same in every clone: draw them in flint.afterRestore.`];
}

module.exports = { install, loaded, renew, unrenew, notes };
