'use strict';
// Writes of calls that run side by side, put together: what the calls of one read answer before the next goes out with one system call, and
// wakes Flint once. It leaves when the promises that have been settled are dealt with, not a turn of the event loop later.

const ROOM = 64 * 1024;

// User code may patch it.
const { nextTick } = process;

/** Holds back what is written to a link until the running code has come to its end. */
class Gathered {
  /** `write(buffer, length)` sends, and keeps nothing of `buffer`. */
  constructor(write) {
    this.send = write;
    this.buffer = Buffer.allocUnsafeSlow(ROOM);
    this.length = 0;
    this.flush = this.flush.bind(this);
    // What was answered is answered, whoever ends the process.
    process.on('exit', this.flush);
  }

  write(bytes, length) {
    if (this.length + length > ROOM) {
      this.flush();
      if (length > ROOM) return this.send(bytes, length);
    }
    if (this.length === 0) nextTick(this.flush);
    bytes.copy(this.buffer, this.length, 0, length);
    this.length += length;
    return undefined;
  }

  flush() {
    const { length } = this;
    this.length = 0;
    if (length > 0) this.send(this.buffer, length);
  }
}

module.exports = { Gathered };
