'use strict';
// Throws and catches in each call, through a closure.

function check(n) {
  if (n < 0) throw new RangeError(`negative: ${n}`);
  return Math.sqrt(n);
}

exports.main = async ({ numbers }) => {
  let failed = 0;
  const attempt = (n) => {
    try {
      return check(n);
    } catch {
      failed += 1;
      return 0;
    }
  };
  return { roots: numbers.map(attempt), failed };
};
