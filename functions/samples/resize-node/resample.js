'use strict';

const CHANNELS = 4;

/**
 * Shrinks an RGBA picture: every pixel of the result is the mean of the area that it covers in the source.
 * Colours are weighted by their opacity, so that transparent pixels do not bleed into visible ones.
 */
function areaAverage({ width, height, data }, toWidth, toHeight) {
  const columns = coverage(width, toWidth);
  const rows = coverage(height, toHeight);

  // First along the rows, which leaves `height` lines of the new width, then down the columns.
  const lines = new Float32Array(height * toWidth * CHANNELS);
  for (let y = 0, out = 0; y < height; y++) {
    for (const { first, weights } of columns) {
      let red = 0, green = 0, blue = 0, alpha = 0;
      let at = (y * width + first) * CHANNELS;
      for (const weight of weights) {
        const opacity = data[at + 3] * weight;
        red += data[at] * opacity;
        green += data[at + 1] * opacity;
        blue += data[at + 2] * opacity;
        alpha += opacity;
        at += CHANNELS;
      }
      lines[out++] = red;
      lines[out++] = green;
      lines[out++] = blue;
      lines[out++] = alpha;
    }
  }

  const result = Buffer.alloc(toWidth * toHeight * CHANNELS);
  const stride = toWidth * CHANNELS;
  for (let y = 0, out = 0; y < toHeight; y++) {
    const { first, weights } = rows[y];
    for (let x = 0; x < toWidth; x++) {
      let red = 0, green = 0, blue = 0, alpha = 0;
      let at = first * stride + x * CHANNELS;
      for (const weight of weights) {
        red += lines[at] * weight;
        green += lines[at + 1] * weight;
        blue += lines[at + 2] * weight;
        alpha += lines[at + 3] * weight;
        at += stride;
      }
      const scale = alpha > 0 ? 1 / alpha : 0;
      result[out++] = Math.round(red * scale);
      result[out++] = Math.round(green * scale);
      result[out++] = Math.round(blue * scale);
      result[out++] = Math.round(alpha);
    }
  }
  return { width: toWidth, height: toHeight, data: result };
}

/** For each of `to` cells: the first of the `from` cells that it covers, and the share of each in it (sum 1). */
function coverage(from, to) {
  const size = from / to;
  return Array.from({ length: to }, (_, cell) => {
    const start = cell * size;
    const end = Math.min(from, start + size);
    const first = Math.floor(start);
    const last = Math.min(from, Math.ceil(end));
    const weights = [];
    for (let source = first; source < last; source++) {
      weights.push((Math.min(end, source + 1) - Math.max(start, source)) / (end - start));
    }
    return { first, weights };
  });
}

module.exports = { areaAverage };
