'use strict';

const { setTimeout: sleep } = require('node:timers/promises');

exports.main = async ({ time }) => {
  const ms = Number(time);
  await sleep(ms);
  return { slept: ms };
};
