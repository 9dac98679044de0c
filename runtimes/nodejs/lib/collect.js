'use strict';

const { Promise, setImmediate } = globalThis; // user code may replace these

/**
 * Collects all garbage, with V8's `collect`. What only a native handle refers to, such as the buffers of a stream of zlib's, becomes garbage
 * when the handle has gone, in a turn of the event loop after the first collection.
 */
async function collectAll(collect) {
  collect();
  await new Promise((resolve) => { setImmediate(resolve); });
  collect();
}

module.exports = { collectAll };
