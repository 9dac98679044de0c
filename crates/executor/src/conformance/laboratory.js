const fs = require('fs');
const net = require('net');
const crypto = require('crypto');
const { spawn } = require('child_process');

let calls = 0;
const MEGABYTE = 1 << 20;

const ops = {
  state() {
    const before = { calls, tmp: fs.existsSync('/tmp/mark'), env: process.env.MARK || '' };
    calls += 1;
    fs.writeFileSync('/tmp/mark', 'x');
    process.env.MARK = 'set';
    return { ...before, greeting: process.env.GREETING };
  },
  echo: ({ text }) => ({ text }),
  random: () => ({
    values: [Math.random(), crypto.randomUUID(), crypto.randomBytes(8).toString('hex'), crypto.randomInt(2 ** 40)].map(String),
  }),
  loop() { for (;;); },
  forks() {
    spawn('/bin/sh', ['-c', 'b() { b | b & }; b'], { stdio: 'ignore' }).on('error', () => {});
    return new Promise(() => setInterval(() => {}, 1000));
  },
  memory() {
    const kept = [];
    for (;;) kept.push(Buffer.alloc(16 * MEGABYTE, 1));
  },
  log({ from, to }) {
    for (let n = from; n < to; n++) {
      console.log(`out ${n}`);
      console.error(`err ${n}`);
    }
    process.stdout.write('no newline');
    return {};
  },
  flood({ megabytes }) {
    const piece = Buffer.alloc(MEGABYTE, `${'x'.repeat(1023)}\n`);
    for (let n = 0; n < megabytes; n++) for (let at = 0; at < piece.length;) at += fs.writeSync(1, piece, at);
    return { written: megabytes };
  },
  close() {
    fs.closeSync(1);
    fs.closeSync(2);
    return { closed: true };
  },
  exit: () => process.exit(7),
  crash: () => process.abort(),
  throw() { throw new Error('asked to'); },
  throwHalf() { throw new Error('asked to \u{1f600}'.slice(0, -1)); },
  big: ({ bytes }) => ({ text: 'y'.repeat(bytes) }),
  number: () => 17,
  read({ path }) {
    try {
      return { read: fs.statSync(path).isDirectory() ? fs.readdirSync(path).join() : fs.readFileSync(path, 'latin1') };
    } catch (error) {
      return { refused: error.code };
    }
  },
  write({ path }) {
    try {
      fs.writeFileSync(path, 'x');
      return { written: true };
    } catch (error) {
      return { refused: error.code };
    }
  },
  connect: ({ host, port }) => new Promise((resolve) => {
    const socket = net.connect({ host, port, timeout: 2000 });
    socket.on('connect', () => resolve({ connected: true }));
    socket.on('error', (error) => resolve({ refused: error.code }));
    socket.on('timeout', () => resolve({ refused: 'timeout' }));
  }),
  async *stream({ megabytes, pause }) {
    for (let n = 0; n < megabytes; n++) {
      if (pause) await new Promise((resume) => setTimeout(resume, pause));
      yield Buffer.alloc(MEGABYTE, n % 251);
    }
    console.log('streamed');
  },
  binary: () => Buffer.from([0, 255, 1]),
};

function main(params) {
  if (Buffer.isBuffer(params.body)) {
    return { length: params.body.length, last: params.body[params.body.length - 1], type: params.contentType };
  }
  return ops[params.op](params);
}
