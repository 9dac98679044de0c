'use strict';
// Output of calls that run side by side: what a call prints, wherever its promises and timers take it, goes to Flint as its own lines (LOG)
// and not to the process's stdout and stderr, where nobody could tell whose it is.

const { AsyncLocalStorage } = require('async_hooks');
const { Kind } = require('./frame');

const NEWLINE = 10;
/** A longer line is cut into several: a frame has an end. */
const LONGEST_LINE = 512 * 1024;

/** Knows which call the running code belongs to, and sends what it prints. */
class SideBySide {
  constructor(link) {
    this.link = link;
    link.gather();
    this.storage = new AsyncLocalStorage();
    this.intercept(process.stdout, 1);
    this.intercept(process.stderr, 2);
  }

  /** Runs `work` as a part of `call`. */
  run(call, work) {
    call.output = [null, [], []];
    return this.storage.run(call, work);
  }

  /** To be called before a call's last frame: sends its unfinished lines. What it prints later is still sent as its own, and then nobody's. */
  finish(call) {
    for (const stream of [1, 2]) this.flush(call, stream);
  }

  intercept(target, stream) {
    const original = target.write;
    target.write = (chunk, encoding, done) => {
      const call = this.storage.getStore();
      if (call === undefined) return original.call(target, chunk, encoding, done);
      const bytes = typeof chunk === 'string' ? Buffer.from(chunk, typeof encoding === 'string' ? encoding : 'utf8') : chunk;
      this.take(call, stream, Buffer.from(bytes));
      const callback = typeof encoding === 'function' ? encoding : done;
      if (typeof callback === 'function') process.nextTick(callback);
      return true;
    };
  }

  take(call, stream, bytes) {
    let start = 0;
    for (;;) {
      const end = bytes.indexOf(NEWLINE, start);
      if (end === -1) break;
      call.output[stream].push(bytes.subarray(start, end));
      this.flush(call, stream, true);
      start = end + 1;
    }
    if (start < bytes.length) call.output[stream].push(bytes.subarray(start));
  }

  flush(call, stream, complete = false) {
    const pieces = call.output[stream];
    if (pieces.length === 0 && !complete) return;
    const line = pieces.length === 1 ? pieces[0] : Buffer.concat(pieces);
    call.output[stream] = [];
    let at = 0;
    do {
      const part = line.subarray(at, at + LONGEST_LINE);
      const payload = Buffer.allocUnsafe(part.length + 1);
      payload[0] = stream;
      part.copy(payload, 1);
      this.link.send(Kind.LOG, false, call.id, payload);
      at += LONGEST_LINE;
    } while (at < line.length);
  }
}

module.exports = { SideBySide };
