'use strict';
// Closes idle connections that Node.js itself keeps for reuse, which a clone must not share.

const DISPATCHER = Symbol.for('undici.globalDispatcher.1');

function releaseConnections() {
  for (const name of ['http', 'https']) if (isLoaded(name)) require(name).globalAgent.destroy();
  const dispatcher = globalThis[DISPATCHER]; // the dispatcher of fetch, once it has been used
  if (dispatcher === undefined || typeof dispatcher.destroy !== 'function') return;
  try {
    globalThis[DISPATCHER] = new dispatcher.constructor();
    dispatcher.destroy().catch(() => {});
  } catch {
    // a dispatcher of the user's: its open connections are found later
  }
}

function isLoaded(name) {
  return process.moduleLoadList === undefined || process.moduleLoadList.includes(`NativeModule ${name}`);
}

module.exports = { releaseConnections };
