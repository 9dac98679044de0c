'use strict';

// Takes one wage, refuses what is not one, and hands it on.

const { call } = require('./call');
const { ROLES } = require('./wages');

const DECIMAL = /^\d{1,8}(\.\d+)?$/;
const CHECKS = {
  id: (value) => /^\d+$/.test(String(value)),
  name: (value) => typeof value === 'string' && value !== '',
  role: (value) => ROLES.includes(value),
  base: (value) => DECIMAL.test(String(value)),
  merit: (value) => DECIMAL.test(String(value)),
  operator: (value) => /^\d+$/.test(String(value)),
};

exports.main = async (params) => {
  const started = Date.now();
  const wrong = Object.keys(CHECKS).find((field) => !CHECKS[field](params[field]));
  if (wrong) return { result: `fail: ${wrong} is not valid`, startTimes: { insert: started } };
  const { id, name, role, base, merit, operator } = params;
  const answer = await call('wage-format', { id: Number(id), name, role, base: Number(base), merit: Number(merit), operator: Number(operator) });
  return { ...answer, startTimes: { insert: started, ...answer.startTimes } };
};
