'use strict';
// The function's stdout and stderr. Output of a call must be in the pipes before its answer is sent.

const { dirname, sep } = require('path');
const { inspect } = require('util');

const SHIM = dirname(__dirname) + sep;

let streams = [];

/** Opens both streams before the first call and makes their pipes blocking, so that a write is complete when it returns. */
function prepare() {
  streams = [process.stdout, process.stderr];
  for (const stream of streams) {
    stream.on('error', () => {}); // the reader has gone, or user code ended the stream
    if (stream._handle && typeof stream._handle.setBlocking === 'function') stream._handle.setBlocking(true);
  }
}

function isFlushed() {
  return streams[0].writableLength === 0 && streams[1].writableLength === 0;
}

/** Resolves when both streams have written everything to their pipes, or cannot any more. */
function flush() {
  return Promise.all(streams.map((stream) => new Promise((resolve) => {
    if (stream.writableLength === 0 || stream.destroyed || stream.writableEnded) resolve();
    else stream.write('', () => resolve());
  })));
}

/** Prints an error with its stack for the developer, without the shim's frames. */
function printError(error) {
  let text;
  try {
    text = ofUser(inspect(error));
  } catch {
    text = 'an error that cannot be printed';
  }
  print(text);
}

/** Node.js's text for frames that an error shares with its cause, which include the shim's. */
const IN_COMMON = / lines matching cause stack trace \.\.\.$/;

/**
 * Removes frames of the shim, and of Node.js below them. The last line of a stack may open the list of the error's own properties, or
 * continue in a list of errors.
 */
function ofUser(text) {
  const lines = [];
  let below = false;
  for (const line of text.split('\n')) {
    below = line.trimStart().startsWith('at ') && (line.includes(SHIM) || (below && line.includes('node:')));
    if (!below) lines.push(line);
    else lines[lines.length - 1] += /(?: \{|,)?$/.exec(line)[0];
    if (IN_COMMON.test(line)) below = true;
  }
  return lines.join('\n');
}

/** Prints a line to stderr, if it is still open. */
function print(text) {
  try {
    if (!streams[1].writableEnded) streams[1].write(`${text}\n`);
  } catch {
    // stderr is closed
  }
}

module.exports = { prepare, isFlushed, flush, print, printError };
