'use strict';

function factors(n) {
  const found = [];
  for (let i = 1; i * i <= n; i++) {
    if (n % i === 0) {
      found.push(i);
      if (i * i !== n) found.push(n / i);
    }
  }
  return found.sort((a, b) => a - b);
}

exports.main = ({ n }) => ({ factors: factors(n) });
