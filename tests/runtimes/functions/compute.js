'use strict';
// Computes; says how long each of its rounds took, and with `look` what V8 has made of its functions before the first.

const v8 = require('v8');

function factors(n) {
  const found = [];
  for (let i = 1; i * i <= n; i += 1) {
    if (n % i === 0) found.push(i);
  }
  return found.length;
}

function product(size) {
  const rows = Array.from({ length: size }, (_, i) => Float64Array.from({ length: size }, (_, j) => i + j));
  let sum = 0;
  for (let i = 0; i < size; i += 1) {
    for (let j = 0; j < size; j += 1) {
      for (let k = 0; k < size; k += 1) sum += rows[i][k] * rows[k][j];
    }
  }
  return sum;
}

/** Of each function whether it runs as optimised code; the bit is that of a function that is made so. */
function optimised(functions) {
  v8.setFlagsFromString('--allow-natives-syntax');
  const sample = new Function('return function (a) { return a + 1; }')();
  const status = new Function('f', 'return %GetOptimizationStatus(f)');
  sample(1);
  const plain = status(sample);
  new Function('f', '%PrepareFunctionForOptimization(f)')(sample);
  sample(2);
  new Function('f', '%OptimizeFunctionOnNextCall(f)')(sample);
  sample(3);
  const bits = status(sample) & ~plain;
  return Object.fromEntries(functions.map((f) => [f.name, bits !== 0 && (status(f) & bits) === bits]));
}

function round(n, size) {
  const begin = process.hrtime.bigint();
  const result = factors(n) + product(size);
  return { result, ms: Number(process.hrtime.bigint() - begin) / 1e6 };
}

exports.main = ({ n, size, rounds = 1, look }) => {
  const answer = look ? { optimised: optimised([factors, product, round]) } : {};
  const made = Array.from({ length: rounds }, () => round(n, size));
  return { ...answer, result: made[0].result, ms: made.map(({ ms }) => ms) };
};
