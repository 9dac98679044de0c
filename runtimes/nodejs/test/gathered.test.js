'use strict';
const assert = require('assert');
const test = require('node:test');
const { Gathered } = require('../lib/gathered');

function recorded() {
  const sent = [];
  const gathered = new Gathered((buffer, length) => sent.push(Buffer.from(buffer.subarray(0, length))));
  const write = (text) => gathered.write(Buffer.from(text), Buffer.byteLength(text));
  return { sent, write, texts: () => sent.map(String) };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('what settled promises write leaves together, in order, before the next turn', async () => {
  const { write, texts } = recorded();
  await turn();
  for (const text of ['a', 'b', 'c']) Promise.resolve().then(() => write(text));
  assert.deepStrictEqual(texts(), []);
  await turn();
  assert.deepStrictEqual(texts(), ['abc']);
  write('d');
  await turn();
  assert.deepStrictEqual(texts(), ['abc', 'd']);
});

test('more than there is room for goes out in between, in order and whole', async () => {
  const { sent, write } = recorded();
  const pieces = [1, 60_000, 10_000, 200_000, 5].map((length, n) => String(n).repeat(length));
  pieces.forEach(write);
  await turn();
  assert.ok(sent.length > 1);
  assert.ok(Buffer.concat(sent).equals(Buffer.from(pieces.join(''))));
});

test('what was answered leaves when the process is ended', () => {
  const { spawnSync } = require('child_process');
  const code = `
    const { Gathered } = require(${JSON.stringify(require.resolve('../lib/gathered'))});
    const gathered = new Gathered((buffer, length) => require('fs').writeSync(1, buffer, 0, length));
    gathered.write(Buffer.from('answer'), 6);
    process.exit(3);`;
  const { status, stdout } = spawnSync(process.execPath, ['-e', code]);
  assert.deepStrictEqual([status, String(stdout)], [3, 'answer']);
});
