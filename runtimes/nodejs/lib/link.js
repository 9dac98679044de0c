'use strict';
// The socket to Flint. Reads arrive in one reused buffer; writes are made at once with write(2)
// and only what the socket does not take is queued: a reply costs one system call and no stream machinery.

const fs = require('fs');
const net = require('net');
const { Decoder, HEADER_LENGTH, ProtocolError, encodeFrame, writeHeader } = require('./frame');

const READ_BUFFER = 128 * 1024;

// User code may patch the modules it shares with the shim.
const { writeSync } = fs;
const { stringify } = JSON;
const EMPTY = Buffer.alloc(0);

class Link {
  /** `onFrame` as in `Decoder`; `onClosed()` when Flint is gone; `onBroken(error)` when it broke the protocol. */
  constructor(fd, { onFrame, onClosed, onBroken }) {
    this.fd = fd;
    this.onClosed = onClosed;
    this.header = Buffer.alloc(HEADER_LENGTH);
    const decoder = new Decoder(onFrame);
    const buffer = Buffer.allocUnsafeSlow(READ_BUFFER);
    const callback = (length) => {
      try {
        decoder.feed(buffer, length);
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error;
        onBroken(error);
      }
      return true;
    };
    this.socket = new net.Socket({ fd, readable: true, writable: true, onread: { buffer, callback } });
    this.socket.on('end', onClosed);
    this.socket.on('error', onClosed);
    this.socket.on('close', onClosed);
  }

  /** Sends the first `length` bytes of `buffer`, which the caller may reuse afterwards. */
  write(buffer, length) {
    let written = 0;
    if (this.socket.writableLength === 0) {
      try {
        written = writeSync(this.fd, buffer, 0, length);
      } catch (error) {
        if (error.code !== 'EAGAIN') return this.onClosed();
      }
      if (written === length) return undefined;
    }
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
