'use strict';

// Makes build/input.png, 170 x 287 with an alpha channel, from a photograph in the public domain: as large as the picture of the
// original experiment, whose origin is not known.

const fs = require('node:fs');
const path = require('node:path');

const { PNG } = require('./nodejs/node_modules/pngjs');

const [WIDTH, HEIGHT] = [170, 287];
const photo = PNG.sync.read(fs.readFileSync(path.join(__dirname, '../../samples/photos/astronaut.png')));
const picture = new PNG({ width: WIDTH, height: HEIGHT });
const scale = photo.height / HEIGHT;
for (let y = 0; y < HEIGHT; y++) {
  for (let x = 0; x < WIDTH; x++) {
    const from = (Math.floor(y * scale) * photo.width + Math.floor(60 + x * scale)) * 4;
    const to = (y * WIDTH + x) * 4;
    photo.data.copy(picture.data, to, from, from + 4);
    picture.data[to + 3] = 255 - Math.floor((y * 55) / HEIGHT);
  }
}
fs.mkdirSync(path.join(__dirname, 'build'), { recursive: true });
fs.writeFileSync(path.join(__dirname, 'build/input.png'), PNG.sync.write(picture));
