'use strict';

// Completes a wage: insurance, the sum, and what is paid out.

const { call } = require('./call');
const { INSURANCE, afterTax } = require('./wages');

exports.main = async (wage) => {
  const started = Date.now();
  const { base, merit } = wage;
  const answer = await call('wage-db-writer', {
    ...wage, insurance: INSURANCE, total: INSURANCE + base + merit, realpay: afterTax(base, merit),
  });
  return { ...answer, startTimes: { format: started, ...answer.startTimes } };
};
