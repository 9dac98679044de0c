'use strict';

exports.main = async ({ time }) => {
  const ms = Number(time);
  await new Promise((resolve) => setTimeout(resolve, ms));
  return { slept: ms };
};
