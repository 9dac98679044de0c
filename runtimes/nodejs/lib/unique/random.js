'use strict';
// Math.random as a generator that can be seeded: xoshiro128** (Blackman, Vigna), two steps per double. As fast as V8's own.

const crypto = require('crypto');

const { randomFillSync } = crypto;
const state = new Int32Array(4);

function step() {
  const s0 = state[0];
  const s1 = state[1];
  const s3 = state[3];
  const product = Math.imul(s1, 5);
  const s2 = state[2] ^ s0;
  const s4 = s3 ^ s1;
  state[0] = s0 ^ s4;
  state[1] = s1 ^ s2;
  state[2] = s2 ^ (s1 << 9);
  state[3] = (s4 << 11) | (s4 >>> 21);
  return Math.imul((product << 7) | (product >>> 25), 9);
}

function random() {
  const high = step() >>> 5;
  return (high * 67108864 + (step() >>> 6)) * 2 ** -53;
}

function install() {
  seedFromSystem();
  Math.random = random;
}

/** Whether it is a string of 64 hexadecimal digits. Without a regular expression, which every clone would have to compile. */
function isEntropy(text) {
  if (typeof text !== 'string' || text.length !== 64) return false;
  for (let i = 0; i < 64; i++) {
    const code = text.charCodeAt(i);
    const letter = code | 32;
    if (!(code >= 48 && code <= 57) && !(letter >= 97 && letter <= 102)) return false;
  }
  return true;
}

/** `entropy`: 64 hexadecimal digits, all of which matter. */
function seed(entropy) {
  for (let i = 0; i < 4; i++) state[i] = word(entropy, i) ^ Math.imul(word(entropy, i + 4), 0x9e3779b1);
  leaveZero();
}

function word(entropy, i) {
  return parseInt(entropy.slice(i * 8, i * 8 + 8), 16);
}

function seedFromSystem() {
  randomFillSync(state);
  leaveZero();
}

/** Leaves the all-zero state, which the generator would never leave. */
function leaveZero() {
  if ((state[0] | state[1] | state[2] | state[3]) === 0) state[0] = 1;
}

module.exports = { install, isEntropy, random, seed, seedFromSystem };
