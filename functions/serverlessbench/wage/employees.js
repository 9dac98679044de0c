'use strict';

// Employees, made from a seed.

const { INSURANCE, afterTax } = require('./nodejs/wages');

const RECORDS = { test: 10, small: 10, large: 1000 };
const PAY = { staff: [5000, 5000], manager: [8000, 10000], teamleader: [8000, 50000] };
const LETTERS = 'abcdefghijklmnopqrstuvwxyz0123456789';

function employees(count) {
  let state = 20201012;
  const below = (bound) => {
    state = (state * 48271) % 2147483647;
    return state % bound;
  };
  return Array.from({ length: count }, (_, index) => {
    const role = Object.keys(PAY)[below(3)];
    const [base, most] = PAY[role];
    const merit = below(most);
    const name = Array.from({ length: 8 }, () => LETTERS[below(LETTERS.length)]).join('');
    return { id: index + 1, name, role, base, merit, operator: 1, insurance: INSURANCE, total: INSURANCE + base + merit, realpay: afterTax(base, merit) };
  });
}

module.exports = { employees, RECORDS };
