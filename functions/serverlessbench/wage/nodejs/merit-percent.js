'use strict';

// How large merit pay is against base pay, by role.

const { ROLES } = require('./wages');

exports.main = ({ base, merit, statistics, operator, startTimes }) => {
  const started = Date.now();
  const percent = (role) => (base[role] ? merit[role] / base[role] : 0);
  return {
    statistics: { ...statistics, 'average-merit-percent': Object.fromEntries(ROLES.map((role) => [role, percent(role)])) },
    operator,
    startTimes: { ...startTimes, 'analysis-merit-percent': started },
  };
};
