'use strict';
// Turns an INVOKE's head and body into the handler's parameters.

const { headersToObject } = require('./context');

const { parse } = JSON;

function contentType(headers) {
  if (headers === undefined) return undefined;
  for (const [name, value] of headers) if (name === 'content-type') return value;
  return undefined;
}

function isJson(type) {
  // Clones would have to compile a regular expression.
  return type === undefined || type === 'application/json' || /^\s*application\/json\s*(;|$)/i.test(type);
}

/** A request's body does not match its content type: the call fails, but its instance does not. */
class BodyError extends Error {}

/** `owned`: the handler may keep the buffer; otherwise binary bodies are copied. */
function parameters(head, buffer, start, end, owned) {
  const type = contentType(head.headers);
  if (isJson(type)) {
    if (start === end) return {};
    try {
      return parse(buffer.toString('utf8', start, end));
    } catch (error) {
      throw new BodyError(`the request body is not JSON: ${error.message}`);
    }
  }
  const body = buffer.subarray(start, end);
  return {
    body: owned ? body : Buffer.from(body),
    contentType: type,
    headers: headersToObject(head.headers),
    method: head.method,
    path: head.path,
    query: head.query,
  };
}

module.exports = { BodyError, parameters };
