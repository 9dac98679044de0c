'use strict';

// Makes a payload and hands it on with the time at which it did.

exports.main = ({ bytes }) => {
  const payload = '0'.repeat(bytes);
  return { payload, sent: performance.timeOrigin + performance.now() };
};
