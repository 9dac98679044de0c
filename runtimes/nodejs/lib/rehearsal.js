'use strict';
// The path of a clone's first call, run on a dummy: in the zygote so that it is compiled, in a primed clone so that its pages are touched.
// No user code runs.

const fs = require('fs');
const unique = require('./unique');
const { Kind, encodeFrame, payloadWithHead } = require('./frame');

const TIMES = 100;
const HEAD = { activation: '0'.repeat(32), deadline: 4e12, headers: [['content-type', 'application/json']], transaction: '0', apiKey: '0', apiHost: '0' };

function frames() {
  const restore = Buffer.from(JSON.stringify({ entropy: '0123456789abcdef'.repeat(4), time: 1e15, instance: '0' }));
  const invoke = payloadWithHead(HEAD, Buffer.from('{"name":"value"}'));
  return Buffer.concat([encodeFrame(Kind.RESTORE, false, 0, restore), encodeFrame(Kind.INVOKE, true, 1, invoke)]);
}

const dummy = frames();
let nowhere = -1;

/** In place of the native `read`. */
function read(buffer) {
  return dummy.copy(buffer);
}

const native = { read, sendHello() {}, pid: () => process.pid };

function answer(params) {
  return { name: params.name };
}

/** Runs `action` with the link led to /dev/null, an own handler and this stand-in for the native helper. */
function pretend(instance, action) {
  const { entry, state, zygote, passive, rehearsing, link } = instance;
  const { fd, socket } = link;
  Object.assign(instance, { entry: answer, rehearsing: true, zygote: { native } });
  Object.assign(link, { fd: nowhere, socket: null });
  action();
  instance.environment.apply({});
  Object.assign(link, { fd, socket });
  Object.assign(instance, { entry, state, zygote, passive, rehearsing });
}

/** In a zygote, before the warm-up. */
function rehearse(instance, becomeClone) {
  nowhere = fs.openSync('/dev/null', 'w');
  for (let i = 0; i < TIMES; i++) pretend(instance, () => becomeClone(instance, native, 1, i & 1));
  fs.closeSync(nowhere);
  unique.unrenew();
  nowhere = 0; // where the frozen zygote has /dev/null
}

/** In a clone, before it says HELLO. */
function prime(instance) {
  pretend(instance, () => instance.link.receive(read(instance.link.buffer)));
}

module.exports = { prime, rehearse };
