'use strict';

const fs = require('node:fs');
const path = require('node:path');

function writeAndRead(folder, n, size) {
  const text = 'A'.repeat(size);
  for (let i = 0; i < n; i++) fs.writeFileSync(path.join(folder, `${i}.txt`), text);
  let whole = 0;
  for (const name of fs.readdirSync(folder)) {
    if (fs.readFileSync(path.join(folder, name), 'latin1') === text) whole++;
  }
  return whole;
}

exports.main = ({ n, size }) => {
  const folder = fs.mkdtempSync('/tmp/diskio-');
  try {
    return { files: writeAndRead(folder, n, size) };
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
};
