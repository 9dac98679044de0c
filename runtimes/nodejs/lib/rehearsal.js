'use strict';
// Runs a clone's first call with dummy input: in the zygote so that its code is compiled, in a primed clone so that its pages are touched.
// No user code runs.

const fs = require('fs');
const unique = require('./unique');
const { Threshold, setThreshold } = require('./annotate/threshold');
const { Call } = require('./call');
const { Context } = require('./context');
const { Kind, encodeFrame, payloadWithHead } = require('./frame');

const now = performance.now.bind(performance); // user code may replace the global one
const { Promise, setImmediate } = globalThis; // user code may replace these too

const TIMES = 150;
/**
 * Enough for V8 to optimise the whole path: it optimises a function some tens of calls after its caller, into which it may then be inlined.
 */
const TIMES_TO_OPTIMISE = 600;
/** Used even if less of the budget is left: the first clones gain more than that. */
const LEAST_MS = 100;
const CALL = { activation: '0'.repeat(32), deadline: 4e12 };
const HTTP = { method: 'POST', path: '/', query: '', headers: [['content-type', 'application/json']] };
/** The heads that Flint sends: V8 specialises code for the object shapes that it has met. */
const HEADS = [{ ...CALL, transaction: '0', apiKey: '0' }, { ...CALL, transaction: '0' }, { ...CALL, ...HTTP, transaction: '0' }];

const RESTORE = { entropy: '0123456789abcdef'.repeat(4), time: 1e15, instance: '0', once: false };

function invoke(head) {
  return encodeFrame(Kind.INVOKE, true, 1, payloadWithHead(head, Buffer.from('{"name":"value"}')));
}

function restoreAndInvoke(head) {
  return Buffer.concat([encodeFrame(Kind.RESTORE, false, 0, Buffer.from(JSON.stringify(RESTORE))), invoke(head)]);
}

/** Objects of all shapes that a call makes, kept because V8 forgets a shape without objects at a garbage collection. */
function examples(init) {
  const asReceived = [RESTORE, ...HEADS].map((value) => JSON.parse(JSON.stringify(value)));
  return asReceived.map((value) => [value, new Call(1, value), new Context(init, value)]);
}

const dummies = HEADS.map(restoreAndInvoke);
const furtherCalls = HEADS.map(invoke);
let next = 0;
let nowhere = -1;
let kept = null;

/** Replaces the native `read`. */
function read(buffer) {
  next = (next + 1) % dummies.length;
  return dummies[next].copy(buffer);
}

/** Two variants of each, while a clone has a third: V8 would specialise on the only one that it has seen called. */
const READS = [read, (buffer) => read(buffer)];
const NOTHING = [() => {}, () => null];

function answer(params) {
  return { name: params.name };
}

/**
 * Handlers as diverse as users' are, so that optimised code is specialised on none of them: V8 specialises on up to four shapes in one
 * place.
 */
const HANDLERS = [
  answer,
  async (params) => ({ greeting: params.name }),
  () => ({ ok: true }),
  (params) => params,
  async () => ({ statusCode: 200, body: '' }),
  () => [1, 'two'],
  (params) => ({ body: `Hello, ${params.name}`, headers: {} }),
  async (params) => params,
  () => ({ result: [1.5], count: 1 }),
  () => undefined,
  () => ({}),
];
/** More turns of the microtask queue than an async handler without waiting needs for its answer. */
const TURNS = 8;
const ANSWER_MS = 1000;

/** Redirects the link to /dev/null and replaces the handler; returns a function that undoes it. */
function begin(instance, handler, nothing = NOTHING[0]) {
  const { entry, state, zygote, passive, rehearsing, link } = instance;
  const { fd, socket, isOpen } = link;
  Object.assign(instance, { entry: handler, rehearsing: nothing });
  Object.assign(link, { fd: nowhere, socket: null, isOpen: false });
  return () => {
    instance.environment.apply({});
    Object.assign(link, { fd, socket, isOpen });
    Object.assign(instance, { entry, state, zygote, passive, rehearsing });
  };
}

/** In a zygote: opens /dev/null for the rehearsal; returns a function that ends it and restores the state. */
function beginPractice(instance) {
  nowhere = fs.openSync('/dev/null', 'w');
  return () => {
    fs.closeSync(nowhere);
    unique.unrenew();
    kept = examples(instance.init);
    nowhere = 0; // where the frozen zygote has /dev/null
  };
}

/** In a zygote: rehearses the first call. The warm-up requests, if any, train V8 on the rest. */
function rehearse(instance, becomeClone) {
  const endPractice = beginPractice(instance);
  for (let i = 0; i < TIMES; i++) {
    const end = begin(instance, answer, NOTHING[(i >> 1) & 1]);
    firstCall(instance, becomeClone, i);
    end();
  }
  endPractice();
}

function firstCall(instance, becomeClone, i) {
  becomeClone(instance, READS[(i >> 1) & 1], i & 1);
}

/**
 * In a zygote without a warm-up: rehearses the first and further calls until V8 has optimised them, for `spareMs` milliseconds or a little
 * longer. Must not precede a garbage collection, which would discard some of the result.
 */
async function optimise(instance, becomeClone, spareMs) {
  const untilMs = now() + Math.max(spareMs, LEAST_MS);
  const endPractice = beginPractice(instance);
  setThreshold(Threshold.EAGER);
  try {
    for (let i = 0; i < TIMES_TO_OPTIMISE && now() < untilMs; i++) await calls(instance, becomeClone, i);
  } finally {
    setThreshold(Threshold.USUAL);
    endPractice();
  }
}

async function calls(instance, becomeClone, i) {
  const end = begin(instance, HANDLERS[i % HANDLERS.length], NOTHING[(i >> 1) & 1]);
  try {
    firstCall(instance, becomeClone, i);
    await answered(instance);
    for (const call of furtherCalls) {
      instance.link.arrived(call.copy(instance.link.buffer));
      await answered(instance);
    }
  } finally {
    end();
  }
}

/** Microtasks complete the answer, unless user code has replaced the engine's promises. A late answer would go to the real link. */
async function answered({ calls: open }) {
  for (let turn = 0; open.size > 0 && turn < TURNS; turn++) await undefined;
  for (const untilMs = now() + ANSWER_MS; open.size > 0;) {
    if (now() > untilMs) throw new Error('Promises are not what they are in Node.js: an asynchronous function that waits for nothing is not over after a second.');
    await new Promise((resolve) => { setImmediate(resolve); });
  }
}

/** In a clone, before it gets a call. */
function prime(instance) {
  const end = begin(instance, answer);
  instance.link.receive(read(instance.link.buffer));
  end();
}

module.exports = { optimise, prime, rehearse };
