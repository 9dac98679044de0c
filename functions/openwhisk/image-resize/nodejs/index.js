'use strict';

// Takes a PNG picture in base64 and makes it exactly w by h, bilinear; the answer is a PNG in base64.

const { PNG } = require('pngjs');

const CHANNELS = 4;

exports.main = ({ img, w, h }) => {
  const startTime = Date.now();
  const started = process.hrtime.bigint();
  let picture;
  try {
    picture = PNG.sync.read(Buffer.from(img, 'base64'));
  } catch {
    return { error: 'img is not a picture' };
  }
  const image = PNG.sync.write(resize(picture, w, h)).toString('base64');
  return { image, executeTime: Number(process.hrtime.bigint() - started), startTime };
};

function resize({ width, height, data }, toWidth, toHeight) {
  const resized = new PNG({ width: toWidth, height: toHeight });
  const columns = neighbours(width, toWidth);
  const rows = neighbours(height, toHeight);
  let out = 0;
  for (const row of rows) {
    const [upper, lower] = [row.first * width, row.second * width];
    for (const column of columns) {
      for (let channel = 0; channel < CHANNELS; channel++) {
        const at = (place) => data[place * CHANNELS + channel];
        const above = mix(at(upper + column.first), at(upper + column.second), column.share);
        const below = mix(at(lower + column.first), at(lower + column.second), column.share);
        resized.data[out++] = Math.round(mix(above, below, row.share));
      }
    }
  }
  return resized;
}

/** For each of `to` cells the two of `from` cells that its middle lies between, and how far it is on the way to the second. */
function neighbours(from, to) {
  return Array.from({ length: to }, (_, cell) => {
    const middle = Math.min(from - 1, Math.max(0, ((cell + 0.5) * from) / to - 0.5));
    const first = Math.floor(middle);
    return { first, second: Math.min(from - 1, first + 1), share: middle - first };
  });
}

const mix = (one, other, share) => one + (other - one) * share;
