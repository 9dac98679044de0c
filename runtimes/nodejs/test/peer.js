'use strict';
// Flint's side of the link, for these tests: starts the shim and speaks frames with it.

const { spawn } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { Decoder, Kind, encodeFrame } = require('../lib/frame');

const SHIM = path.join(__dirname, '..', 'shim.js');

class Peer {
  constructor(flags = []) {
    this.process = spawn(process.execPath, [...flags, SHIM], { stdio: ['ignore', 'pipe', 'pipe', 'pipe'], env: { ...process.env, FLINT_LINK_FD: '3' } });
    this.stdout = '';
    this.stderr = '';
    this.process.stdout.on('data', (piece) => { this.stdout += piece; });
    this.process.stderr.on('data', (piece) => { this.stderr += piece; });
    this.exited = new Promise((resolve) => { this.process.on('close', resolve); });
    this.frames = [];
    this.waiting = [];
    this.link = this.process.stdio[3];
    const decoder = new Decoder((kind, fin, call, buffer, start, end) => this.deliver({ kind, fin, call, payload: Buffer.from(buffer.subarray(start, end)) }));
    this.link.on('data', (piece) => decoder.feed(piece, piece.length));
    this.link.on('error', () => {});
    this.link.on('close', () => this.deliver(null));
    this.calls = 0;
  }

  deliver(frame) {
    const wake = this.waiting.shift();
    if (wake) wake(frame);
    else this.frames.push(frame);
  }

  next() {
    return this.frames.length > 0 ? Promise.resolve(this.frames.shift()) : new Promise((resolve) => { this.waiting.push(resolve); });
  }

  async nextJson(kind) {
    const frame = await this.next();
    if (frame === null || frame.kind !== kind) throw new Error(`expected ${kind}, got ${frame && `${frame.kind} ${frame.payload}`}; stderr: ${this.stderr}`);
    return JSON.parse(frame.payload);
  }

  async init(code, main, env = {}, more = {}) {
    await this.nextJson(Kind.HELLO);
    this.link.write(encodeFrame(Kind.INIT, false, 0, Buffer.from(JSON.stringify({ code, main, env, namespace: 'guest', name: 'f', version: '0.0.1', ...more }))));
  }

  async start(code, main, env, more) {
    await this.init(code, main, env, more);
    await this.nextJson(Kind.READY);
    return this;
  }

  send(params = {}) {
    this.calls += 1;
    const head = Buffer.from(JSON.stringify({ activation: String(this.calls), deadline: Date.now() + 60000 }));
    const length = Buffer.alloc(4);
    length.writeUInt32BE(head.length);
    this.link.write(encodeFrame(Kind.INVOKE, true, this.calls, Buffer.concat([length, head, Buffer.from(JSON.stringify(params))])));
    return this.calls;
  }

  /** The next answer: `{ result }`, `{ error }`, or `{ head, body }`. */
  async answer() {
    const first = await this.next();
    if (first === null) throw new Error(`the link ended; stderr: ${this.stderr}`);
    if (first.kind === Kind.ERROR) return { call: first.call, error: JSON.parse(first.payload) };
    const headLength = first.payload.readUInt32BE(0);
    const pieces = [first.payload.subarray(4 + headLength)];
    for (let frame = first; !frame.fin && frame.kind !== Kind.END;) {
      frame = await this.next();
      if (frame.kind === Kind.ERROR) return { call: first.call, error: JSON.parse(frame.payload) };
      pieces.push(frame.payload);
    }
    const body = Buffer.concat(pieces);
    if (headLength === 0) return { call: first.call, result: JSON.parse(body) };
    return { call: first.call, head: JSON.parse(first.payload.subarray(4, 4 + headLength)), body };
  }

  invoke(params) {
    this.send(params);
    return this.answer();
  }

  /** After it, `stdout` and `stderr` are complete: they do not keep to the order of the link. */
  stop() {
    this.link.destroy();
    return this.exited;
  }
}

/** A directory with these files; removed when the test ends. */
function directory(t, files) {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'flint-nodejs-'));
  t.after(() => fs.rmSync(root, { recursive: true }));
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(path.join(root, name)), { recursive: true });
    fs.writeFileSync(path.join(root, name), text);
  }
  return root;
}

/** A shim that has loaded `source` from a file called `name`. */
async function started(t, source, { name = 'index.js', main = 'main', flags = [], init = {} } = {}) {
  const peer = new Peer(flags);
  t.after(() => peer.stop());
  return peer.start(path.join(directory(t, { [name]: source }), name), main, {}, init);
}

module.exports = { Peer, directory, started };
