'use strict';
// Works a few times, then not any more.

let calls = 0;

function work(n) {
  return n * 2;
}

exports.main = async ({ n, most }) => {
  calls += 1;
  if (calls > most) throw new Error('no more');
  return { result: work(n) };
};
