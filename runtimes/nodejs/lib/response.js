'use strict';
// The values that a handler may return, and how they are sent over the link.

const { isGeneratorObject } = require('util').types;

const { Kind, HEADER_LENGTH, MAX_HEAD, MAX_PAYLOAD, payloadWithHead, uint32, writeHeader } = require('./frame');

const WINDOW = 1024 * 1024;
const PIECE = 128 * 1024;
const BINARY = [['content-type', 'application/octet-stream']];
const NOT_JSON = 'The action did not return a dictionary or array.';

/** Content codings that `fetch` decodes. */
const DECODED = ['gzip', 'x-gzip', 'deflate', 'br'];

const { stringify } = JSON;
const { toString: toStringTag } = Object.prototype;
const scratch = Buffer.allocUnsafeSlow(64 * 1024);

/** The handler's result cannot be sent; the message is for the developer. */
class ResultError extends Error {}

/** The JSON text of a result, which must be an object or an array. */
function toJson(result) {
  if (result === undefined) return '{}';
  let text;
  try {
    text = stringify(result);
  } catch (error) {
    throw new ResultError(`${NOT_JSON} It cannot be written as JSON: ${error.message}`);
  }
  if (text === undefined || (text[0] !== '{' && text[0] !== '[')) {
    const type = result === null ? 'null' : typeof result === 'object' ? result.constructor?.name : typeof result;
    throw new ResultError(`${NOT_JSON} It returned a value of type ${type}.`);
  }
  return text;
}

/** Whether the result is sent as bytes rather than JSON. */
function isBinary(result) {
  if (result === null || typeof result !== 'object') return false;
  const prototype = Object.getPrototypeOf(result);
  if (prototype === Object.prototype || prototype === Array.prototype) return Symbol.asyncIterator in result;
  return ArrayBuffer.isView(result) || result instanceof ArrayBuffer || isResponse(result) || isStream(result);
}

/** Whether it is Node.js's own Response, or one of a package such as undici or node-fetch. */
function isResponse(result) {
  return toStringTag.call(result) === '[object Response]' && typeof result.headers?.get === 'function';
}

/** Whether the function has read the body to be sent, or is reading it. */
function isSpent(result) {
  const body = isResponse(result) ? result.body : result;
  return result.bodyUsed === true || body?.locked === true;
}

/** Whether `fetch` has decoded a body whose headers still declare it encoded. */
function isDecoded(response) {
  const encoding = response.headers.get('content-encoding');
  return response.url !== '' && response.body !== null && encoding !== null
    && encoding.split(',').every((coding) => DECODED.includes(coding.trim().toLowerCase()));
}

/** Accepts generators but no other iterables: arrays, strings and Maps are values. */
function isStream(result) {
  return Symbol.asyncIterator in result || isGeneratorObject(result) || (typeof ReadableStream === 'function' && result instanceof ReadableStream);
}

function toBuffer(piece) {
  if (typeof piece === 'string') return Buffer.from(piece);
  if (ArrayBuffer.isView(piece)) return Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
  if (piece instanceof ArrayBuffer) return Buffer.from(piece);
  throw new ResultError(`A streamed body must consist of strings or bytes, not of ${piece === null ? 'null' : typeof piece}.`);
}

/** Sends a JSON result. Small ones are built in a reused buffer and sent with one system call. */
function sendJson(link, call, text) {
  if (text.length * 3 + HEADER_LENGTH + 4 <= scratch.length) {
    const length = scratch.write(text, HEADER_LENGTH + 4, 'utf8');
    writeHeader(scratch, 4 + length, Kind.RESULT, true, call.id);
    scratch.fill(0, HEADER_LENGTH, HEADER_LENGTH + 4);
    link.write(scratch, HEADER_LENGTH + 4 + length);
    return undefined;
  }
  return sendBytes(link, call, null, Buffer.from(text));
}

/** The payload of RESULT. */
function toPayload(head, body) {
  const payload = payloadWithHead(head, body);
  const length = uint32(payload, 0);
  if (length > MAX_HEAD) throw new ResultError(`The head of the answer is too large: status and headers have ${length} bytes as JSON, and may have ${MAX_HEAD}.`);
  return payload;
}

/** Sends a complete body. Returns a promise only if it has to wait for acknowledgements. */
function sendBytes(link, call, head, body) {
  if (body.length + 300 * 1024 <= MAX_PAYLOAD) {
    link.send(Kind.RESULT, true, call.id, toPayload(head, body));
    return undefined;
  }
  return sendPieces(link, call, head, [body]);
}

/** Sends the pieces of a sync or async iterable as they arrive, within the window of unacknowledged bytes. */
async function sendPieces(link, call, head, pieces) {
  link.send(Kind.RESULT, false, call.id, toPayload(head, Buffer.alloc(0)));
  for await (const piece of pieces) {
    const bytes = toBuffer(piece);
    for (let at = 0; at < bytes.length && !call.cancelled; at += PIECE) {
      const part = bytes.subarray(at, at + PIECE);
      while (call.unacknowledged + part.length > WINDOW && !call.cancelled) await call.acknowledged();
      call.unacknowledged += part.length;
      if (!call.cancelled) link.send(Kind.BODY, false, call.id, part);
    }
    if (call.cancelled) break;
  }
}

/** Sends a result for which `isBinary` is true. If this returns a promise, the caller sends END after it. */
function sendBinary(link, call, result) {
  if (isResponse(result)) {
    const headers = [];
    const ofEncoded = isDecoded(result) ? ['content-encoding', 'content-length'] : [];
    for (const [name, value] of result.headers) if (!ofEncoded.includes(name)) headers.push([name, value]);
    const head = { status: result.status, headers };
    if (!result.body) return sendBytes(link, call, head, Buffer.alloc(0));
    if (ArrayBuffer.isView(result.body)) return sendBytes(link, call, head, toBuffer(result.body)); // older releases of node-fetch
    return sendPieces(link, call, head, result.body);
  }
  const head = { status: 200, headers: BINARY };
  if (isStream(result)) return sendPieces(link, call, head, result);
  return sendBytes(link, call, head, toBuffer(result));
}

module.exports = { ResultError, toJson, isBinary, isSpent, sendJson, sendBinary };
