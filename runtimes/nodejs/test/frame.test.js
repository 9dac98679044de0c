'use strict';
const assert = require('assert');
const path = require('path');
const test = require('node:test');
const { Decoder, Kind, encodeFrame, splitHead } = require('../lib/frame');

const vectors = require(path.join(__dirname, '..', '..', 'link-vectors.json'));

function bytes(value) {
  if (typeof value === 'string') return Buffer.from(value, 'hex');
  return Buffer.alloc(value.times * value.repeat.length / 2, Buffer.from(value.repeat, 'hex'));
}

test('kinds are those of the vectors', () => assert.deepStrictEqual({ ...Kind }, vectors.kinds));

for (const vector of vectors.frames) {
  test(`frames: ${vector.name}`, () => {
    const frames = [];
    const decoder = new Decoder((kind, fin, call, buffer, start, end) => frames.push({ kind, fin, call, payload: Buffer.from(buffer.subarray(start, end)) }));
    const feed = () => vector.feed.map(bytes).forEach((piece) => decoder.feed(piece, piece.length));
    if (vector.error === null) feed();
    else assert.throws(feed, { name: 'ProtocolError', code: vector.error });
    const expected = vector.frames.map((frame) => ({ kind: Kind[frame.kind], fin: frame.fin, call: frame.call, payload: bytes(frame.payload) }));
    assert.strictEqual(frames.length, expected.length);
    frames.forEach((frame, i) => assert.deepStrictEqual(frame, expected[i]));
    if (vector.error !== null) return;
    assert.strictEqual(decoder.rest, vector.rest);
    if (vector.rest === 0) {
      const encoded = Buffer.concat(expected.map((frame) => encodeFrame(frame.kind, frame.fin, frame.call, frame.payload)));
      assert.ok(encoded.equals(Buffer.concat(vector.feed.map(bytes))));
    }
  });
}

for (const vector of vectors.heads) {
  test(`heads: ${vector.name}`, () => {
    const payload = bytes(vector.payload);
    const split = () => splitHead(payload, 0, payload.length);
    if (vector.error !== null) {
      assert.throws(split, { name: 'ProtocolError', code: vector.error });
      return;
    }
    const { head, bodyStart } = split();
    assert.deepStrictEqual(head, vector.head);
    assert.deepStrictEqual(payload.subarray(bodyStart), bytes(vector.body));
  });
}
