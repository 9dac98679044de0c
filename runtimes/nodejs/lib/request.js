'use strict';
// From an INVOKE head and its body to the handler's parameters.

const { headersToObject } = require('./context');

const { parse } = JSON;

function contentType(headers) {
  if (headers === undefined) return undefined;
  for (const [name, value] of headers) if (name === 'content-type') return value;
  return undefined;
}

function isJson(type) {
  // A regular expression is compiled anew in every clone.
  return type === undefined || type === 'application/json' || /^\s*application\/json\s*(;|$)/i.test(type);
}

/** A request's body is not what it says it is: the call fails, and its instance does not. */
class BodyError extends Error {}

/** `owned`: the handler may keep the buffer, otherwise binary bodies are copied out of it. */
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
