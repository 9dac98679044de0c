'use strict';
// Output of concurrent calls: what a call prints, in whatever promise or timer, is sent as its own log lines (LOG) rather than to the
// process's stdout and stderr, where it could not be attributed.

const { AsyncLocalStorage } = require('async_hooks');
const { Kind } = require('./frame');

const NEWLINE = 10;
/** A longer line is split, since frames are limited. */
const LONGEST_LINE = 512 * 1024;

/** Knows to which call the running code belongs, and sends its output. */
class SideBySide {
  constructor(link) {
    this.link = link;
    link.gather();
    this.storage = new AsyncLocalStorage();
    this.intercept(process.stdout, 1);
    this.intercept(process.stderr, 2);
  }

  /** Runs `work` as part of `call`. */
  run(call, work) {
    call.output = [null, [], []];
    return this.storage.run(call, work);
  }

  /**
   * Must be called before a call's last frame: sends its unfinished lines. Later output is still sent as the call's, where nobody receives
   * it.
   */
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
