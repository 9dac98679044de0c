'use strict';

// What one of a role is paid out, on average.

const { ROLES, afterTax } = require('./wages');

exports.main = (given) => {
  const started = Date.now();
  const average = (role) => (given.count[role] ? afterTax(given.base[role], given.merit[role]) / given.count[role] : 0);
  return {
    ...given,
    statistics: { ...given.statistics, 'average-realpay': Object.fromEntries(ROLES.map((role) => [role, average(role)])) },
    startTimes: { ...given.startTimes, 'analysis-realpay': started },
  };
};
