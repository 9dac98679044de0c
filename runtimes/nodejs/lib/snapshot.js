'use strict';
// FREEZE and RESTORE: turn an instance into a zygote, and its clones into instances.

const flint = require('./flint');
const stdio = require('./stdio');
const unique = require('./unique');
const { setAll } = require('./environment');
const { Kind, ProtocolError } = require('./frame');
const { optimise, prime, rehearse } = require('./rehearsal');
const { userStack } = require('./load');

const PRIME = 1;

/** Opens the link and sends HELLO once the runtime has settled: everything that exists by then is the runtime's own. */
function startZygote(instance) {
  const { link, zygote } = instance;
  link.put = zygote.native.write;
  link.holdAck = zygote.native.holdAck;
  zygote.native.onArrival(link.buffer, link.arrived.bind(link));
  zygote.settleRuntime().then(() => {
    instance.open(zygote.native.duplicate(link.fd)); // the socket closes its descriptor at its end, but fd 3 must stay open
    zygote.drawBaseline();
  });
}

function onFreeze(instance, options) {
  if (instance.zygote === null || instance.state !== 'ready' || instance.calls.size > 0) {
    throw new ProtocolError('order', 'FREEZE is for a zygote that has loaded its code and runs no call');
  }
  instance.state = 'freezing';
  setImmediate(() => { // the rehearsal needs the decoder, which is still handling this frame
    const practice = { rehearse: rehearse.bind(null, instance, becomeClone), optimise: optimise.bind(null, instance, becomeClone), further: [serveFromEventLoop, instance.link.watch, instance.link.arrived] };
    // Bound rather than wrapped: a function that has never run would be compiled in every clone.
    instance.zygote.freeze(instance, options, becomeClone.bind(null, instance, instance.zygote.native.read), practice)
      .catch((error) => refuse(instance, error));
  });
}

/** Reports why the process cannot be frozen; it keeps serving nothing until Flint closes the link. */
function refuse(instance, error) {
  stdio.printError(error);
  const { link, zygote } = instance;
  if (link.socket === null) link.open(zygote.native.duplicate(link.fd)); // to notice its end
  instance.state = 'refused';
  instance.sendError(0, 'snapshot', error.message);
}

/** Serves the clone's link directly until the event loop is needed, then on the event loop. */
function becomeClone(instance, read, flags) {
  instance.state = 'cloned';
  instance.passive = true;
  const { native, left } = instance.zygote; // RESTORE takes it away
  if (left.kept.length > 0) left.put();
  if (flags & PRIME) prime(instance);
  instance.link.pump(read, () => instance.passive);
  const goOn = instance.rehearsing || serveFromEventLoop;
  goOn(instance, native);
}

/** After the microtasks, so that a handler that awaits only settled values has answered before. */
function serveFromEventLoop({ link }, native) {
  setImmediate(link.watch.bind(link, native));
}

function onRestore(instance, { entropy, once, env }) {
  if (instance.state !== 'cloned') throw new ProtocolError('order', 'RESTORE is for a clone, once');
  if (!unique.isEntropy(entropy)) throw new ProtocolError('json', 'RESTORE brings no entropy of 64 hexadecimal digits');
  const { native } = instance.zygote;
  unique.renew(entropy, native.pid());
  if (env !== undefined) {
    setAll(env);
    instance.environment.settle();
  }
  // Exiting is faster than waiting to be killed, and nothing that a clone does after its only call has any effect.
  if (once === true) instance.endAtOnce = native.exit;
  instance.zygote = null;
  if (!flint.hasAfter() || instance.rehearsing !== null) {
    restored(instance);
    return;
  }
  instance.passive = false;
  instance.held = [];
  let late;
  try {
    late = flint.runAfter();
  } catch (error) {
    fail(instance, error);
    return;
  }
  if (late === undefined) release(instance);
  else late.then(() => release(instance), (error) => fail(instance, error));
}

function restored(instance) {
  instance.state = 'ready';
  const { link } = instance;
  if (!link.isOpen) link.holdAck();
  else link.send(Kind.ACK, false, 0);
}

/** Stores a frame that arrived before the hooks were done. */
function hold(instance, kind, fin, id, payload) {
  instance.held.push([kind, fin, id, Buffer.from(payload)]);
}

function release(instance) {
  const { held } = instance;
  instance.held = null;
  restored(instance);
  for (const [kind, fin, id, payload] of held) instance.onFrame(kind, fin, id, payload, 0, payload.length, true);
}

function fail(instance, error) {
  stdio.printError(error);
  instance.sendError(0, 'developer', `A flint.afterRestore hook has failed: ${userStack(error)}`);
  process.exit(1);
}

module.exports = { startZygote, onFreeze, onRestore, hold };
