'use strict';
// Closes idle connections that Node.js itself keeps for reuse, which a clone must not share.

/** Where the dispatchers of fetch are, once it has been used; the second since Node.js 24. */
const DISPATCHERS = [1, 2].map((version) => Symbol.for(`undici.globalDispatcher.${version}`));

function releaseConnections() {
  for (const name of ['http', 'https']) if (isLoaded(name)) require(name).globalAgent.destroy();
  const successors = new Map();
  for (const name of DISPATCHERS) {
    const dispatcher = globalThis[name];
    if (!isDefault(dispatcher)) continue;
    if (!successors.has(dispatcher)) successors.set(dispatcher, new dispatcher.constructor());
    globalThis[name] = successors.get(dispatcher);
  }
  const [first, second] = DISPATCHERS.map((name) => globalThis[name]);
  // From Node.js 26 on, the first one passes everything to the second.
  if (successors.size > 0 && first?.constructor?.name === 'Dispatcher1Wrapper') globalThis[DISPATCHERS[0]] = new first.constructor(second);
  for (const dispatcher of successors.keys()) dispatcher.destroy().catch(() => {});
}

/** Whether it is as fetch makes it. One that the function has made stays: it has its options, and references to it; its open connections are found later. */
function isDefault(dispatcher) {
  if (dispatcher?.constructor?.name !== 'Agent' || typeof dispatcher.destroy !== 'function') return false;
  const options = Object.getOwnPropertySymbols(dispatcher).find((symbol) => symbol.description === 'options');
  if (options === undefined) return false;
  return Object.values(dispatcher[options]).every((value) => value === undefined || value === Infinity);
}

function isLoaded(name) {
  return process.moduleLoadList === undefined || process.moduleLoadList.includes(`NativeModule ${name}`);
}

module.exports = { releaseConnections };
