'use strict';
// The path of a clone's first call, run on a dummy: in the zygote so that it is compiled, in a primed clone so that its pages are touched.
// No user code runs.

const fs = require('fs');
const unique = require('./unique');
const { Call } = require('./call');
const { Context } = require('./context');
const { Kind, encodeFrame, payloadWithHead } = require('./frame');

const TIMES = 150;
const CALL = { activation: '0'.repeat(32), deadline: 4e12 };
const HTTP = { method: 'POST', path: '/', query: '', headers: [['content-type', 'application/json']] };
/** The heads that Flint sends: V8 prepares for the very shapes of objects that it has met. */
const HEADS = [{ ...CALL, transaction: '0', apiKey: '0' }, { ...CALL, transaction: '0' }, { ...CALL, ...HTTP, transaction: '0' }];

const RESTORE = { entropy: '0123456789abcdef'.repeat(4), time: 1e15, instance: '0', once: false };

function frames(head) {
  const restore = Buffer.from(JSON.stringify(RESTORE));
  const invoke = payloadWithHead(head, Buffer.from('{"name":"value"}'));
  return Buffer.concat([encodeFrame(Kind.RESTORE, false, 0, restore), encodeFrame(Kind.INVOKE, true, 1, invoke)]);
}

/** Objects of all shapes that a call makes: V8 forgets those of which there is no object when garbage is collected. */
function examples(init) {
  const asReceived = [RESTORE, ...HEADS].map((value) => JSON.parse(JSON.stringify(value)));
  return asReceived.map((value) => [value, new Call(1, value), new Context(init, value)]);
}

const dummies = HEADS.map(frames);
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

/** Runs `action` with the link led to /dev/null and an own handler. */
function pretend(instance, action) {
  const { entry, state, zygote, passive, rehearsing, link } = instance;
  const { fd, socket, isOpen } = link;
  Object.assign(instance, { entry: answer, rehearsing: true });
  Object.assign(link, { fd: nowhere, socket: null, isOpen: false });
  action();
  instance.environment.apply({});
  Object.assign(link, { fd, socket, isOpen });
  Object.assign(instance, { entry, state, zygote, passive, rehearsing });
}

/** In a zygote, before the warm-up. */
function rehearse(instance, becomeClone) {
  nowhere = fs.openSync('/dev/null', 'w');
  for (let i = 0; i < TIMES; i++) pretend(instance, () => becomeClone(instance, read, i & 1));
  fs.closeSync(nowhere);
  unique.unrenew();
  kept = examples(instance.init);
  nowhere = 0; // where the frozen zygote has /dev/null
}

/** In a clone, before it is given a call. */
function prime(instance) {
  pretend(instance, () => instance.link.receive(read(instance.link.buffer)));
}

module.exports = { prime, rehearse };
