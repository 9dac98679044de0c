'use strict';

// One step of a sequence: adds one, and when.

exports.main = ({ n, steps = [] }) => {
  const started = Date.now();
  return { n: n + 1, steps: [...steps, { started, returned: Date.now() }] };
};
