'use strict';
// Random bytes drawn in advance, which clones must not share: Node.js's own caches behind randomUUID and randomInt, and the pools of
// libraries (uuid, nanoid, uid). OpenSSL itself notices a fork.

const crypto = require('crypto');

const { randomFillSync } = crypto;
const MAX_RANGE = 2 ** 48 - 1;
// uuid draws 256 bytes, and nanoid 128 ids at a time; keys, salts and nonces are shorter.
const POOL_AT_LEAST = 128;
const POOL_AT_MOST = 64 * 1024;
// Limits on the buffers of randomBytes that are held: a few of each size, and in all no more than every clone can refill.
const MADE_AT_MOST = 16 * 1024;
const MADE_OF_A_SIZE = 8;
const MADE_IN_ALL = 128 * 1024;
const NOTED = 64;
const REGIONS = 64; // of one buffer
// The number of UUIDs that Node.js draws at a time.
const BATCH = 128;
const FEW = 8;

/** In a zygote nothing may fill Node's caches, from which all clones would draw the same values. */
let inZygote = true;
/** The buffers that a zygote has filled, by weak reference; of each, which regions and how often. */
const fills = new WeakMap();
let filled = [];
let filledAtLoad = [];
/**
 * The latest buffers that `randomBytes` has made, of each size that a pool may have, since a library (uid) keeps the last one. Held
 * strongly, because a WeakRef would keep all of them until the end of the event loop's turn. The most recent sizes are last.
 */
const made = new Map();
let madeBytes = 0;
/** Shorter buffers made while the function is loaded; `null` afterwards. */
let shortOnes = [];

function replace(owner, name, wrap) {
  const descriptor = owner && Object.getOwnPropertyDescriptor(owner, name);
  if (descriptor === undefined || typeof descriptor.value !== 'function') return;
  Object.defineProperty(owner, name, { ...descriptor, value: wrap(descriptor.value) });
}

function install() {
  // Both draw from the same cache.
  for (const name of ['randomUUID', 'randomUUIDv7']) replace(crypto, name, uncachedUuid);
  replace(crypto, 'randomInt', uncachedInt);
  replace(crypto, 'randomBytes', making);
  replace(crypto, 'randomFillSync', watched);
  replace(crypto, 'randomFill', watchedLater);
  const web = crypto.webcrypto && Object.getPrototypeOf(crypto.webcrypto);
  replace(web, 'getRandomValues', watched); // also behind crypto.getRandomValues
  const { randomUUID } = crypto;
  replace(web, 'randomUUID', (original) => function () {
    return this === crypto.webcrypto ? randomUUID() : original.call(this);
  });
}

/**
 * Bypasses the cache also in a clone until it draws many: Node.js itself may have filled the cache in the zygote (`URL.createObjectURL`),
 * so that it is used up first.
 */
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
    if (!good) return original.call(this, min, max, callback); // reports the error
    const value = low + below(high - low);
    if (done === undefined) return value;
    process.nextTick(done, undefined, value);
    return undefined;
  };
}

/** A uniformly distributed integer below `range`, from fresh bytes. */
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
    if (inZygote) watch(buffer, ...rest.slice(0, -1)); // without the callback
    return result;
  };
}

function watched(original) {
  return { [original.name](buffer, ...rest) {
    const result = original.call(this, buffer, ...rest);
    if (inZygote) watch(buffer, ...rest);
    return result;
  } }[original.name];
}

/** Notes what was filled: of a typed array in its elements, as Node.js counts, of an ArrayBuffer or DataView in bytes. */
function watch(buffer, offset = 0, size = lengthOf(buffer) - offset) {
  let regions = fills.get(buffer);
  if (regions === undefined) {
    regions = [];
    fills.set(buffer, regions);
    filled.push(new WeakRef(buffer));
    if (filled.length % 1024 === 0) filled = filled.filter((held) => held.deref() !== undefined);
  }
  const known = regions.find((region) => region.offset === offset && region.size === size);
  if (known !== undefined) known.times += 1;
  else if (regions.push({ offset, size, bytes: size * (buffer.BYTES_PER_ELEMENT || 1), times: 1 }) > REGIONS) regions.shift();
}

function lengthOf(buffer) {
  return buffer.length ?? buffer.byteLength;
}

/** Whether a region is a pool: filled repeatedly, or larger than what is drawn for other uses. */
function isPool({ bytes, times }) {
  return times > 1 || (bytes >= POOL_AT_LEAST && bytes <= POOL_AT_MOST);
}

function held(buffers) {
  return buffers.map((weak) => weak.deref()).filter((buffer) => buffer !== undefined);
}

/** Fills the pools in a buffer anew; what is given away (`structuredClone` with transfer) has no length any more. */
function refill(buffer) {
  for (const region of fills.get(buffer)) {
    if (isPool(region) && region.offset + region.size <= lengthOf(buffer)) randomFillSync(buffer, region.offset, region.size);
  }
}

function renew() {
  inZygote = false;
  for (const buffer of held(filled)) refill(buffer);
  for (const latest of made.values()) for (const buffer of latest) randomFillSync(buffer);
}

function unrenew() {
  inZygote = true;
}

/** Called when the function is loaded: it may keep the bytes drawn so far for ever. */
function loaded() {
  filledAtLoad = filled.concat((shortOnes || []).map((buffer) => new WeakRef(buffer)));
  shortOnes = null;
}

function notes() {
  const kept = held(filledAtLoad).filter((buffer) => !fills.has(buffer) || !fills.get(buffer).every(isPool)).length;
  if (kept === 0) return [];
  return [`${kept === 1 ? 'One buffer' : `${kept} buffers`} of random bytes drawn while the function was loaded ${kept === 1 ? 'is' : 'are'} the same in every clone: draw them in flint.afterRestore.`];
}

module.exports = { install, loaded, renew, unrenew, notes };
