'use strict';
// The socket to Flint. Reads arrive in one reused buffer. Writes are made at once with write(2) (merged if calls are concurrent), and only
// what the socket does not take is queued, so a reply costs one system call and no stream machinery.

const fs = require('fs');
const net = require('net');
const { Gathered } = require('./gathered');
const { Decoder, HEADER_LENGTH, ProtocolError, encodeFrame, writeHeader } = require('./frame');

const READ_BUFFER = 128 * 1024;

// User code may patch the modules that it shares with the shim.
const { writeSync } = fs;
const { stringify } = JSON;
const EMPTY = Buffer.alloc(0);

const FULL = -1;
const GONE = -2;

function put(fd, buffer, at, length) {
  try {
    return writeSync(fd, buffer, at, length);
  } catch (error) {
    return error.code === 'EAGAIN' ? FULL : GONE;
  }
}

class Link {
  /** `onFrame` as in `Decoder`; `onClosed()` when Flint has gone; `onBroken(error)` when Flint violated the protocol. */
  constructor(fd, { onFrame, onClosed, onBroken }) {
    this.fd = fd;
    /** The link's own descriptor; `fd` refers to /dev/null while a zygote rehearses. */
    this.home = fd;
    this.onClosed = onClosed;
    this.onBroken = onBroken;
    this.header = Buffer.alloc(HEADER_LENGTH);
    this.decoder = new Decoder(onFrame);
    this.buffer = Buffer.allocUnsafeSlow(READ_BUFFER);
    this.socket = null;
    /** Whether the event loop reads from the link. */
    this.isOpen = false;
    /** In a clone that reads without a socket: stops that. */
    this.unwatch = null;
    /**
     * Writes to a descriptor; returns the number of bytes written, FULL or GONE. In clones it is the native helper's, which touches fewer
     * pages.
     */
    this.put = put;
    /** If calls are concurrent: holds back their answers for a moment. */
    this.gathered = null;
    /** In clones: sends RESTORE's ACK with the next write, or before the next wait. */
    this.holdAck = null;
  }

  /** Reads on the event loop from now on. `fd`: a duplicate of the link, which the socket may close. */
  open(fd = this.fd) {
    if (this.put !== put) this.put(this.fd, EMPTY, 0, 0); // sends what the native helper has held back
    if (this.unwatch !== null) this.unwatch();
    this.unwatch = null;
    this.isOpen = true;
    const callback = (length) => {
      this.receive(length);
      return true;
    };
    this.socket = new net.Socket({ fd, readable: true, writable: true, onread: { buffer: this.buffer, callback } });
    this.socket.on('end', this.onClosed);
    this.socket.on('error', this.onClosed);
    this.socket.on('close', this.onClosed);
  }

  /** Like `open`, in a clone: the native helper reads, until a socket is needed to queue writes. */
  watch(native) {
    this.isOpen = true;
    this.unwatch = native.unwatch;
    native.watch();
  }

  /** Merges the writes made in one go from now on. */
  gather() {
    this.gathered = new Gathered((buffer, length) => this.writeNow(buffer, length));
  }

  /** Stops reading on the event loop; resolves when the socket has closed its descriptor. */
  detach() {
    const { socket } = this;
    this.socket = null;
    this.isOpen = false;
    for (const event of ['end', 'error', 'close']) socket.removeListener(event, this.onClosed);
    return new Promise((resolve) => {
      socket.once('close', resolve);
      socket.destroy();
    });
  }

  /** Reads with `read(buffer)` rather than the event loop, for as long as `wanted()`: a socket costs a new process many page faults. */
  pump(read, wanted) {
    while (wanted()) {
      const length = read(this.buffer);
      this.arrived(length);
      if (length === 0) return;
    }
  }

  /** Handles `length` bytes in the buffer; 0 is the end of the link. */
  arrived(length) {
    if (length === 0) this.onClosed();
    else this.receive(length);
  }

  receive(length) {
    try {
      this.decoder.feed(this.buffer, length);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.onBroken(error);
    }
  }

  /** Whether everything sent has left this process. */
  isWritten() {
    return (this.gathered === null || this.gathered.length === 0) && this.isTaken();
  }

  /** Whether everything given to the socket has left. */
  isTaken() {
    return this.socket === null || this.socket.writableLength === 0;
  }

  /** Sends the first `length` bytes of `buffer`, which the caller may reuse afterwards. */
  write(buffer, length) {
    return this.gathered === null ? this.writeNow(buffer, length) : this.gathered.write(buffer, length);
  }

  writeNow(buffer, length) {
    let written = 0;
    if (this.isTaken()) {
      do {
        const count = this.put(this.fd, buffer, written, length - written);
        if (count === GONE) return this.onClosed();
        if (count === FULL) break;
        written += count;
      } while (written < length && this.socket === null);
      if (written === length) return undefined;
    }
    if (this.socket === null) this.open();
    this.socket.write(Buffer.from(buffer.subarray(written, length)));
    return undefined;
  }

  send(kind, fin, call, payload = EMPTY) {
    if (payload.length > 4096) {
      writeHeader(this.header, payload.length, kind, fin, call);
      this.write(this.header, HEADER_LENGTH);
      this.write(payload, payload.length);
    } else {
      this.write(encodeFrame(kind, fin, call, payload), HEADER_LENGTH + payload.length);
    }
  }

  sendJson(kind, call, value) {
    this.send(kind, false, call, Buffer.from(stringify(value)));
  }
}

module.exports = { Link };
