'use strict';
// Trial division, as in FaaSdom; the comparator is made anew in each call.

function factors(n) {
  const found = [];
  const root = Math.floor(Math.sqrt(n));
  for (let i = 1; i <= root; i++) {
    if (n % i !== 0) continue;
    found.push(i);
    if (n / i !== i) found.push(n / i);
  }
  return found.sort((a, b) => a - b);
}

exports.main = async ({ n }) => ({ factors: factors(n) });
