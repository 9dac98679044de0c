'use strict';
// Idle connections that Node.js itself keeps for the next request: a clone must not share them.

const DISPATCHER = Symbol.for('undici.globalDispatcher.1');

function releaseConnections() {
  for (const name of ['http', 'https']) if (isLoaded(name)) require(name).globalAgent.destroy();
  const dispatcher = globalThis[DISPATCHER]; // of fetch, once it has been used
  if (dispatcher === undefined || typeof dispatcher.destroy !== 'function') return;
  try {
    globalThis[DISPATCHER] = new dispatcher.constructor();
    dispatcher.destroy().catch(() => {});
  } catch {
    // one that the user made: what it keeps open is found later
  }
}

function isLoaded(name) {
  return process.moduleLoadList === undefined || process.moduleLoadList.includes(`NativeModule ${name}`);
}

module.exports = { releaseConnections };
