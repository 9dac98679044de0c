'use strict';
// The path of a clone's first call, run on a dummy: in the zygote so that it is compiled, in a primed clone so that its pages are touched.
// No user code runs.

const fs = require('fs');
const unique = require('./unique');
const { Threshold, withThreshold } = require('./annotate/threshold');
const { Call } = require('./call');
const { Context } = require('./context');
const { Kind, encodeFrame, payloadWithHead } = require('./frame');

const now = performance.now.bind(performance); // user code may replace the global one

const TIMES = 150;
/** For V8 to optimise all of the path: it does so some tens of calls after a function's caller, which may contain it then. */
const TIMES_TO_OPTIMISE = 600;
/** However little of the budget is left: it pays for itself in the first clones. */
const LEAST_MS = 100;
const CALL = { activation: '0'.repeat(32), deadline: 4e12 };
const HTTP = { method: 'POST', path: '/', query: '', headers: [['content-type', 'application/json']] };
/** The heads that Flint sends: V8 prepares for the very shapes of objects that it has met. */
const HEADS = [{ ...CALL, transaction: '0', apiKey: '0' }, { ...CALL, transaction: '0' }, { ...CALL, ...HTTP, transaction: '0' }];

const RESTORE = { entropy: '0123456789abcdef'.repeat(4), time: 1e15, instance: '0', once: false };

function invoke(head) {
  return encodeFrame(Kind.INVOKE, true, 1, payloadWithHead(head, Buffer.from('{"name":"value"}')));
}

function restoreAndInvoke(head) {
  return Buffer.concat([encodeFrame(Kind.RESTORE, false, 0, Buffer.from(JSON.stringify(RESTORE))), invoke(head)]);
}

/** Objects of all shapes that a call makes: V8 forgets those of which there is no object when garbage is collected. */
function examples(init) {
  const asReceived = [RESTORE, ...HEADS].map((value) => JSON.parse(JSON.stringify(value)));
  return asReceived.map((value) => [value, new Call(1, value), new Context(init, value)]);
}

const dummies = HEADS.map(restoreAndInvoke);
const furtherCalls = HEADS.map(invoke);
let next = 0;
let nowhere = -1;
let kept = null;

/** In place of the native `read`. */
function read(buffer) {
  next = (next + 1) % dummies.length;
  return dummies[next].copy(buffer);
}

function answer(params) {
  return { name: params.name };
}

/** Handlers as different as users', so that optimised code bets on none of them. */
const HANDLERS = [answer, () => ({ ok: true }), (params) => params, () => [1, 'two'], (params) => ({ body: `Hello, ${params.name}` }), () => undefined];

/** Runs `action` with the link led to /dev/null and a handler of ours. */
function pretend(instance, handler, action) {
  const { entry, state, zygote, passive, rehearsing, link } = instance;
  const { fd, socket, isOpen } = link;
  Object.assign(instance, { entry: handler, rehearsing: true });
  Object.assign(link, { fd: nowhere, socket: null, isOpen: false });
  action();
  instance.environment.apply({});
  Object.assign(link, { fd, socket, isOpen });
  Object.assign(instance, { entry, state, zygote, passive, rehearsing });
}

/** In a zygote: runs `action` so often, but not beyond `untilMs`, with /dev/null open, and takes back what it has left. */
function practise(instance, times, action, untilMs = Infinity) {
  nowhere = fs.openSync('/dev/null', 'w');
  for (let i = 0; i < times && now() < untilMs; i++) action(i);
  fs.closeSync(nowhere);
  unique.unrenew();
  kept = examples(instance.init);
  nowhere = 0; // where the frozen zygote has /dev/null
}

/** In a zygote, before anything else: the first call. Warm-up requests, where there are some, teach V8 the rest. */
function rehearse(instance, becomeClone) {
  practise(instance, TIMES, (i) => pretend(instance, answer, () => becomeClone(instance, read, i & 1)));
}

/**
 * In a zygote without a warm-up: the first call and further ones, until V8 has optimised them, for `spareMs` milliseconds or a little longer.
 * Not before garbage is collected, which would throw away some of what this makes.
 */
function optimise(instance, becomeClone, spareMs) {
  const untilMs = now() + Math.max(spareMs, LEAST_MS);
  const { link } = instance;
  const calls = (i) => {
    becomeClone(instance, read, i & 1);
    for (const call of furtherCalls) link.arrived(call.copy(link.buffer));
  };
  const all = (i) => pretend(instance, HANDLERS[i % HANDLERS.length], () => calls(i));
  withThreshold(Threshold.EAGER, () => practise(instance, TIMES_TO_OPTIMISE, all, untilMs));
}

/** In a clone, before it is given a call. */
function prime(instance) {
  pretend(instance, answer, () => instance.link.receive(read(instance.link.buffer)));
}

module.exports = { optimise, prime, rehearse };
