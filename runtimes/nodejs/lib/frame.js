'use strict';
// The frames of the link: 12 bytes of header, then the payload. No I/O here.

const HEADER_LENGTH = 12;
const MAX_PAYLOAD = 1024 * 1024;
const MAX_HEAD = 256 * 1024;

const Kind = Object.freeze({
  HELLO: 1, INIT: 2, READY: 3, FREEZE: 4, CLONE: 5, RESTORE: 6, ACK: 7,
  INVOKE: 8, BODY: 9, END: 10, RESULT: 11, LOG: 12, ERROR: 13,
});
const { parse, stringify } = JSON; // user code may patch the globals that it shares with the shim
const LAST_KIND = Kind.ERROR;

/** The peer broke the protocol. `code` is the class of the error: length, kind, reserved, truncated, json or order. */
class ProtocolError extends Error {
  constructor(code, message) {
    super(message);
    this.name = 'ProtocolError';
    this.code = code;
  }
}

/** Writes a frame's header to the first 12 bytes of `buffer`. */
function writeHeader(buffer, length, kind, fin, call) {
  buffer[0] = length >>> 24;
  buffer[1] = length >>> 16;
  buffer[2] = length >>> 8;
  buffer[3] = length;
  buffer[4] = kind;
  buffer[5] = fin ? 1 : 0;
  buffer[6] = 0;
  buffer[7] = 0;
  buffer[8] = call >>> 24;
  buffer[9] = call >>> 16;
  buffer[10] = call >>> 8;
  buffer[11] = call;
}

function encodeFrame(kind, fin, call, payload) {
  const frame = Buffer.allocUnsafe(HEADER_LENGTH + payload.length);
  writeHeader(frame, payload.length, kind, fin, call);
  payload.copy(frame, HEADER_LENGTH);
  return frame;
}

function uint32(buffer, at) {
  return ((buffer[at] << 24) | (buffer[at + 1] << 16) | (buffer[at + 2] << 8) | buffer[at + 3]) >>> 0;
}

/** Checks the header at `at` and returns the payload's length. */
function checkHeader(buffer, at) {
  const length = uint32(buffer, at);
  if (length > MAX_PAYLOAD) throw new ProtocolError('length', `a frame of ${length} bytes exceeds ${MAX_PAYLOAD}`);
  const kind = buffer[at + 4];
  if (kind < 1 || kind > LAST_KIND) throw new ProtocolError('kind', `unknown frame kind ${kind}`);
  if (buffer[at + 5] > 1 || buffer[at + 6] !== 0 || buffer[at + 7] !== 0) {
    throw new ProtocolError('reserved', 'a reserved bit of a frame header is set');
  }
  return length;
}

/**
 * Decodes pieces of bytes into frames: `onFrame(kind, fin, call, buffer, start, end, owned)`. A frame that lies entirely in one piece is
 * passed on without a copy. `owned` says that the receiver may keep `buffer`; otherwise it is valid only during the call.
 */
class Decoder {
  constructor(onFrame) {
    this.onFrame = onFrame;
    this.header = Buffer.alloc(HEADER_LENGTH);
    this.headerFilled = 0;
    this.payload = null;
    this.payloadFilled = 0;
  }

  /** Number of bytes held back because their frame is incomplete. */
  get rest() {
    return this.headerFilled + this.payloadFilled;
  }

  feed(piece, length) {
    let at = 0;
    while (at < length) {
      if (this.headerFilled === 0 && length - at >= HEADER_LENGTH) {
        const start = at + HEADER_LENGTH;
        const end = start + checkHeader(piece, at);
        if (end <= length) {
          this.onFrame(piece[at + 4], piece[at + 5] === 1, uint32(piece, at + 8), piece, start, end, false);
          at = end;
          continue;
        }
      }
      at = this.gather(piece, at, length);
    }
  }

  /** Takes what it can of a frame that is spread over several pieces; returns where it stopped. */
  gather(piece, at, length) {
    if (this.headerFilled < HEADER_LENGTH) {
      const taken = Math.min(HEADER_LENGTH - this.headerFilled, length - at);
      piece.copy(this.header, this.headerFilled, at, at + taken);
      this.headerFilled += taken;
      at += taken;
      if (this.headerFilled < HEADER_LENGTH) return at;
      this.payload = Buffer.allocUnsafe(checkHeader(this.header, 0));
    }
    const taken = Math.min(this.payload.length - this.payloadFilled, length - at);
    piece.copy(this.payload, this.payloadFilled, at, at + taken);
    this.payloadFilled += taken;
    at += taken;
    if (this.payloadFilled === this.payload.length) {
      const payload = this.payload;
      this.payload = null;
      this.payloadFilled = 0;
      this.headerFilled = 0;
      const header = this.header;
      this.onFrame(header[4], header[5] === 1, uint32(header, 8), payload, 0, payload.length, true);
    }
    return at;
  }
}

/** Splits the payload of INVOKE or RESULT. `head` is null if there is none; the body starts at `bodyStart`. */
function splitHead(buffer, start, end) {
  if (end - start < 4) throw new ProtocolError('truncated', 'the payload is too short for a head length');
  const length = uint32(buffer, start);
  if (length > MAX_HEAD) throw new ProtocolError('length', `a head of ${length} bytes exceeds ${MAX_HEAD}`);
  const bodyStart = start + 4 + length;
  if (bodyStart > end) throw new ProtocolError('truncated', 'the head is longer than the payload');
  if (length === 0) return { head: null, bodyStart };
  return { head: parseObject(buffer, start + 4, bodyStart), bodyStart };
}

/** The payload of INVOKE or RESULT; a `head` of null means none. */
function payloadWithHead(head, body) {
  const json = head === null ? '' : stringify(head);
  const headLength = Buffer.byteLength(json);
  const payload = Buffer.allocUnsafe(4 + headLength + body.length);
  payload.writeUInt32BE(headLength, 0);
  payload.write(json, 4, 'utf8');
  body.copy(payload, 4 + headLength);
  return payload;
}

/** Parses a JSON object that the protocol requires. */
function parseObject(buffer, start, end) {
  let value;
  try {
    value = parse(buffer.toString('utf8', start, end));
  } catch (error) {
    throw new ProtocolError('json', `malformed JSON from the peer: ${error.message}`);
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new ProtocolError('json', 'the peer sent JSON that is not an object');
  }
  return value;
}

module.exports = { Kind, Decoder, ProtocolError, HEADER_LENGTH, MAX_PAYLOAD, MAX_HEAD, encodeFrame, writeHeader, uint32, payloadWithHead, splitHead, parseObject };
