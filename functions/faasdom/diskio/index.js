'use strict';

const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');

/** What file i holds: a mark of its own, then letters A. */
const text = (seed, i, size) => ((seed * 1000003 + i) % 2 ** 32).toString(16).padStart(8, '0') + 'A'.repeat(size - 8);

function writeAndRead(folder, n, size, seed) {
  for (let i = 0; i < n; i++) fs.writeFileSync(path.join(folder, `${i}.txt`), text(seed, i, size));
  const files = fs.readdirSync(folder).length;
  // Of what was read, so that the answer shows that it was there.
  const digest = crypto.createHash('sha256');
  for (let i = 0; i < files; i++) digest.update(fs.readFileSync(path.join(folder, `${i}.txt`)));
  return { files, digest: digest.digest('hex') };
}

exports.main = ({ n, size, seed }) => {
  const folder = fs.mkdtempSync('/tmp/diskio-');
  try {
    return writeAndRead(folder, n, size, seed);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
};
