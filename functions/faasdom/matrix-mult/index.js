'use strict';

function totalOfProduct(n, seed) {
  let state = seed;
  const next = () => {
    state = (state * 16807) % 2147483647;
    return state % 100;
  };
  const square = (cell) => Array.from({ length: n }, () => Array.from({ length: n }, cell));
  const [a, b] = [square(next), square(next)];
  const product = square(() => 0);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) {
      let cell = 0;
      for (let k = 0; k < n; k++) cell += a[i][k] * b[k][j];
      product[i][j] = cell;
    }
  }
  let total = 0;
  for (const row of product) for (const cell of row) total += cell;
  return total;
}

exports.main = ({ n, seed }) => ({ total: totalOfProduct(n, seed) });
