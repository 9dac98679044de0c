'use strict';
// Two random matrices and their product; `make` is made anew in each call.

function multiply(n) {
  const make = () => {
    const rows = [];
    for (let i = 0; i < n; i++) {
      const row = [];
      for (let j = 0; j < n; j++) row.push(Math.floor(Math.random() * 100));
      rows.push(row);
    }
    return rows;
  };
  const a = make();
  const b = make();
  const product = [];
  for (let i = 0; i < n; i++) {
    const row = [];
    for (let j = 0; j < n; j++) {
      let sum = 0;
      for (let k = 0; k < n; k++) sum += a[i][k] * b[k][j];
      row.push(sum);
    }
    product.push(row);
  }
  return product;
}

exports.main = async ({ n }) => ({ rows: multiply(n).length });
