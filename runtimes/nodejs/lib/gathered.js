'use strict';
// Merges the writes of concurrent calls: the answers to all calls of one read go out with one system call, and wake Flint once. They leave
// once the settled promises are handled, not a turn of the event loop later.

const ROOM = 64 * 1024;

// User code may patch it.
const { nextTick } = process;

/** Holds back writes to a link until the running code has finished. */
class Gathered {
  /** `write(buffer, length)` sends, and keeps no reference to `buffer`. */
  constructor(write) {
    this.send = write;
    this.buffer = Buffer.allocUnsafeSlow(ROOM);
    this.length = 0;
    this.flush = this.flush.bind(this);
    // Answers must be sent even if user code exits the process.
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
