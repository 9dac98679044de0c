'use strict';

const jpeg = require('jpeg-js');
const { PNG } = require('pngjs');

// Each codec turns bytes into { width, height, data } and back; `data` is RGBA, 8 bits a channel.

const JPEG_QUALITY = 85;

const codecs = [
  {
    contentType: 'image/jpeg',
    magic: Buffer.from([0xff, 0xd8, 0xff]),
    decode: (bytes) => jpeg.decode(bytes, { useTArray: true }),
    encode: (picture) => jpeg.encode(picture, JPEG_QUALITY).data,
  },
  {
    contentType: 'image/png',
    magic: Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    decode: (bytes) => PNG.sync.read(bytes),
    encode: ({ width, height, data }) => {
      const png = new PNG({ width, height });
      data.copy(png.data);
      return PNG.sync.write(png);
    },
  },
];

/** The codec for the format that `bytes` starts like, or undefined. */
function codecFor(bytes) {
  if (!(bytes instanceof Uint8Array)) return undefined;
  return codecs.find(({ magic }) => magic.equals(bytes.subarray(0, magic.length)));
}

module.exports = { codecFor };
