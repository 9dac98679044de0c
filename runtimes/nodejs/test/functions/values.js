'use strict';
// Everything that two clones could have in common, taken through references from before the freeze and through new ones.

const crypto = require('crypto');
const vm = require('vm');
const { promisify } = require('util');
const { randomBytes, randomInt, randomUUID } = crypto;
const { random } = Math;
const now = performance.now.bind(performance);

// As the packages uuid and nanoid draw their random bytes.
const pool = new Uint8Array(256);
let at = pool.length;
const idPool = Buffer.allocUnsafe(128 * 21);
let idAt = 0;

function uuid() {
  if (at > pool.length - 16) {
    crypto.randomFillSync(pool);
    at = 0;
  }
  return Buffer.from(pool.slice(at, at += 16)).toString('hex');
}

function nanoid() {
  if (idAt === 0 || idAt + 21 > idPool.length) {
    crypto.webcrypto.getRandomValues(idPool);
    idAt = 0;
  }
  return idPool.subarray(idAt, idAt += 21).toString('hex');
}

// As the package uid draws them, and as one might that waits for them.
let made = null;
let madeAt = 0;
let madeLater = null;
const filledLater = new Uint8Array(256);
let isFilledLater = false;

function uid() {
  if (made === null || madeAt + 16 > made.length) {
    made = randomBytes(4096);
    madeAt = 0;
  }
  return made.subarray(madeAt, madeAt += 16).toString('hex');
}

async function uidLater() {
  if (madeLater === null) madeLater = await promisify(randomBytes)(512);
  return madeLater.subarray(0, 16).toString('hex');
}

async function filled() {
  if (!isFilledLater) await promisify(crypto.randomFill)(filledLater);
  isFilledLater = true;
  return Buffer.from(filledLater.subarray(0, 16)).toString('hex');
}

/** Of an identifier that begins with the time. */
function randomPart(id) {
  return id.slice(14);
}

/** How far the clock of performance is from the time of day: both are read again when something came in between. */
function clocksApart() {
  for (;;) {
    const before = Date.now();
    const seen = performance.timeOrigin + now();
    if (Date.now() - before < 100) return seen - before;
  }
}

const context = vm.createContext({});
// Node.js itself draws an identifier for it.
URL.revokeObjectURL(URL.createObjectURL(new (require('buffer').Blob)([])));

exports.main = async () => ({
  random: Math.random(),
  randomCaptured: random(),
  randomInContext: vm.runInContext('Math.random()', context),
  randomInNewContext: vm.runInNewContext('Math.random()'),
  randomInScript: new vm.Script('Math.random()').runInNewContext(),
  randomUUID: crypto.randomUUID(),
  randomUUIDCaptured: randomUUID(),
  randomUUIDOfWeb: globalThis.crypto ? globalThis.crypto.randomUUID() : crypto.webcrypto.randomUUID(),
  randomUUIDv7: crypto.randomUUIDv7 ? randomPart(crypto.randomUUIDv7()) : randomUUID(),
  randomUUIDAfterMany: Array.from({ length: 20 }, () => crypto.randomUUID()).pop(),
  randomUUIDUncached: crypto.randomUUID({ disableEntropyCache: true }),
  randomInt: crypto.randomInt(2 ** 47),
  randomIntCaptured: randomInt(1, 2 ** 47),
  randomIntLater: await promisify(randomInt)(2 ** 47),
  randomBytes: randomBytes(16).toString('hex'),
  randomBytesLater: (await promisify(randomBytes)(16)).toString('hex'),
  getRandomValues: Buffer.from(crypto.webcrypto.getRandomValues(new Uint8Array(16))).toString('hex'),
  key: crypto.generateKeySync('aes', { length: 128 }).export().toString('hex'),
  uuid: uuid(),
  nanoid: nanoid(),
  uid: uid(),
  uidLater: await uidLater(),
  filled: await filled(),
  pid: process.pid,
  alsoNow: clocksApart(),
  uptime: process.uptime(),
  now: performance.now(),
});
