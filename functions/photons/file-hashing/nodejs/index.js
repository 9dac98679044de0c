'use strict';

const { createHash } = require('node:crypto');

const store = require('./s3');

exports.main = async ({ seed, bytes }) => {
  const started = performance.now();
  const data = await store.get(`files/file-${seed}.dat`);
  const hash = createHash('md5').update(data.subarray(0, bytes)).digest('hex').toUpperCase();
  return { hash, time: performance.now() - started };
};
