'use strict';
// How often a function must have run before V8 optimises it.

const v8 = require('v8');

/**
 * USUAL: V8's default. EAGER: early, but after the type feedback of a round of requests. PROBING: even functions that run rarely.
 * WITHIN_PRACTICE: for the first runs of functions to be optimised with EAGER later, since a function keeps its initial number until it has
 * run that often.
 */
const Threshold = { USUAL: 0, EAGER: 1, PROBING: 2, WITHIN_PRACTICE: 3 };

// Until V8 11 the flags count bytes of executed bytecode, from 12 on calls.
const [major] = process.versions.v8.split('.').map(Number);
const USUAL_BUDGET = major < 11 ? 135168 : 67584;
const FLAGS = major < 12
  ? { 'interrupt-budget': [USUAL_BUDGET, 1024, 128, USUAL_BUDGET] }
  : {
    'invocation-count-for-turbofan': [3000, 40, 10, 500],
    'invocation-count-for-maglev': [400, 20, 5, 400],
    'minimum-invocations-after-ic-update': [500, 10, 4, 500],
  };

function setThreshold(threshold) {
  for (const [flag, values] of Object.entries(FLAGS)) v8.setFlagsFromString(`--${flag}=${values[threshold]}`);
}

/** Runs `act` with another threshold than the default. */
function withThreshold(threshold, act) {
  setThreshold(threshold);
  try {
    act();
  } finally {
    setThreshold(Threshold.USUAL);
  }
}

module.exports = { Threshold, setThreshold, withThreshold };
