'use strict';
// The socket to Flint. Reads arrive in one reused buffer; writes are made at once with write(2) (together, where calls run side by side)
// and only what the socket does not take is queued: a reply costs one system call and no stream machinery.

const fs = require('fs');
const net = require('net');
const { Gathered } = require('./gathered');
const { Decoder, HEADER_LENGTH, ProtocolError, encodeFrame, writeHeader } = require('./frame');

const READ_BUFFER = 128 * 1024;

// User code may patch the modules it shares with the shim.
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
  /** `onFrame` as in `Decoder`; `onClosed()` when Flint is gone; `onBroken(error)` when it broke the protocol. */
  constructor(fd, { onFrame, onClosed, onBroken }) {
    this.fd = fd;
    /** The link's own descriptor; `fd` leads to /dev/null while a zygote practises. */
    this.home = fd;
    this.onClosed = onClosed;
    this.onBroken = onBroken;
    this.header = Buffer.alloc(HEADER_LENGTH);
    this.decoder = new Decoder(onFrame);
    this.buffer = Buffer.allocUnsafeSlow(READ_BUFFER);
    this.socket = null;
    /** Whether the event loop reads. */
    this.isOpen = false;
    /** In a clone that reads without a socket: ends that. */
    this.unwatch = null;
    /** Writes to a descriptor: how many bytes went, FULL or GONE. In clones the native helper's, which touches fewer pages. */
    this.put = put;
    /** Where calls run side by side: holds back what they answer for a moment. */
    this.gathered = null;
    /** In clones: sends RESTORE's ACK with what is written next, or before the next wait. */
    this.holdAck = null;
  }

  /** Reads on the event loop from now on. `fd`: another number for the link, which the socket may close in its time. */
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

  /** As `open`, in a clone: by the native helper, until a socket is needed to queue what is written. */
  watch(native) {
    this.isOpen = true;
    this.unwatch = native.unwatch;
    native.watch();
  }

  /** From now on what is written in one go is sent in one go. */
  gather() {
    this.gathered = new Gathered((buffer, length) => this.writeNow(buffer, length));
  }

  /** Ends reading on the event loop; resolves when the socket has closed its descriptor. */
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

  /** Reads without the event loop, with `read(buffer)`, for as long as `wanted()`: the socket costs a new process many page faults. */
  pump(read, wanted) {
    while (wanted()) {
      const length = read(this.buffer);
      this.arrived(length);
      if (length === 0) return;
    }
  }

  /** `length` bytes are in the buffer; none at the link's end. */
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

  /** Whether all that was sent has left this process. */
  isWritten() {
    return (this.gathered === null || this.gathered.length === 0) && this.isTaken();
  }

  /** Whether all that was given to the socket has left. */
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
