import assert from 'node:assert/strict';
import { test } from 'node:test';

import { surroundings } from './glue.mjs';

const all = ({ loop }) => loop.runUntil(() => false);

test('timers run by when they are due, then by when they were set, with what they were given', () => {
  const here = surroundings();
  const log = [];
  here.setTimeout((...values) => log.push(values), 20, 'last', 1);
  for (const name of ['a', 'b', 'c']) here.setTimeout((text) => log.push(text), 5, name);
  here.setTimeout(() => log.push('first'));
  assert.equal(all(here), false);
  assert.deepEqual(log, ['first', 'a', 'b', 'c', ['last', 1]]);
  assert.deepEqual(here.clock.slept, [5, 15], 'it waits once for those that are due together');
});

test('jobs run before the next timer, and all that they add', () => {
  const here = surroundings();
  const log = [];
  const job = (text, next) => here.queueMicrotask(() => { log.push(text); next?.(); });
  here.setTimeout(() => { log.push('timer 1'); job('job 2', () => job('job 3')); });
  here.setTimeout(() => log.push('timer 2'));
  job('job 1');
  all(here);
  assert.deepEqual(log, ['job 1', 'timer 1', 'job 2', 'job 3', 'timer 2']);
});

test('a timer of 0 ms that sets another, and an immediate that does, let others run', () => {
  for (const again of ['setTimeout', 'setImmediate']) {
    const here = surroundings();
    let turns = 0;
    const turn = () => { turns += 1; here[again](turn, 0); };
    turn();
    let others = 0;
    here.setTimeout(() => { others += 1; });
    here.setImmediate(() => { others += 1; });
    assert.equal(here.loop.runUntil(() => others === 2), true);
    assert.ok(turns < 5, `${turns} turns`);
  }
});

test('immediates come after the timers that are due, and do not wait for others', () => {
  const here = surroundings();
  const log = [];
  here.setImmediate((text) => log.push(text), 'immediate');
  here.setTimeout(() => log.push('due'));
  here.setTimeout(() => log.push('later'), 10);
  all(here);
  assert.deepEqual(log, ['due', 'immediate', 'later']);
});

test('what is cleared does not run, not even when it is due already', () => {
  const here = surroundings();
  const log = [];
  const [second, number, immediate] = [here.setTimeout(log.push, 1), here.setTimeout(log.push, 1), here.setImmediate(log.push)];
  here.setTimeout(() => { here.clearTimeout(second); here.clearInterval(Number(number)); });
  here.clearImmediate(immediate);
  const together = [0, 1].map((n) => here.setTimeout(() => { log.push(n); here.clearTimeout(together[1 - n]); }, 5));
  for (const nothing of [undefined, null, 0, -1, 'x', {}, Symbol('x'), second]) here.clearTimeout(nothing);
  assert.equal(all(here), false);
  assert.deepEqual(log, [0]);
});

test('an interval runs until it is cleared, from within too', () => {
  const here = surroundings();
  const at = [];
  const interval = here.setInterval((text) => {
    at.push(text + here.clock.at);
    if (at.length === 3) here.clearInterval(interval);
  }, 10, 'at ');
  all(here);
  assert.deepEqual(at, ['at 10', 'at 20', 'at 30']);
});

test('delays are what other engines make of them', () => {
  const here = surroundings();
  const at = {};
  for (const delay of [-5, NaN, undefined, '7', 3.9, Infinity]) here.setTimeout(() => { at[delay] = here.clock.at; }, delay);
  all(here);
  assert.deepEqual(at, { '-5': 0, NaN: 0, undefined: 0, 7: 7, 3.9: 3, Infinity: 2 ** 31 - 1 });
});

test('a timer is a number to browsers and has the methods of Node.js', () => {
  const { setTimeout, setInterval } = surroundings();
  const [first, second] = [setTimeout(() => {}, 1), setInterval(() => {}, 1)];
  assert.equal(first.unref().ref().hasRef(), true);
  assert.ok(Number(second) > Number(first) && first > 0);
});

test('what is no function is refused', () => {
  const here = surroundings();
  for (const name of ['setTimeout', 'setInterval', 'setImmediate', 'queueMicrotask']) {
    assert.throws(() => here[name]('text', 1), TypeError, name);
  }
  assert.equal(here.loop.waits, false);
});

test('an error that nobody catches ends the run, and nothing else is lost', () => {
  const here = surroundings();
  const log = [];
  here.setTimeout(() => { throw new Error('thrown'); });
  here.setTimeout(() => log.push('after'));
  assert.throws(() => all(here), /thrown/);
  all(here);
  assert.deepEqual(log, ['after']);
});

test('many timers take their time in order', () => {
  const here = surroundings();
  const log = [];
  const delays = Array.from({ length: 2000 }, (_, n) => (n * 7919) % 1009);
  delays.forEach((delay, n) => here.setTimeout(() => log.push([delay, n]), delay));
  all(here);
  assert.deepEqual(log, delays.map((delay, n) => [delay, n]).sort(([a, m], [b, n]) => a - b || m - n));
});
