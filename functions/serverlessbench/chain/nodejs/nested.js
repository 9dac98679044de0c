'use strict';

// Adds one to what the rest of the chain answers, and when that was. The last of the chain calls nobody.

const { call } = require('./call');

exports.main = async ({ n }) => {
  const started = Date.now();
  const { n: sum, steps } = n > 1 ? await call('chain', { n: n - 1 }) : { n: 0, steps: [] };
  return { n: sum + 1, steps: [{ started, returned: Date.now() }, ...steps] };
};
