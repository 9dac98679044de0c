'use strict';
// Longer than the budget in a single call.

exports.main = async ({ ms }) => {
  const end = Date.now() + ms;
  let turns = 0;
  while (Date.now() < end) turns += 1;
  return { worked: turns > 0 };
};
