'use strict';

// The first figure of the statistics: what all are paid.

exports.main = (given) => ({
  ...given, statistics: { total: given.total }, startTimes: { ...given.startTimes, 'analysis-total': Date.now() },
});
