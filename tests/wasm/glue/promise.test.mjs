import assert from 'node:assert/strict';
import { test } from 'node:test';

import { arrayFromAsync, surroundings } from './glue.mjs';

/** How a promise of a handler ends, when all that can run has run. */
function ended({ loop, Promise }, promise) {
  let outcome = 'pending';
  Promise.resolve(promise).then((value) => { outcome = { value }; }, (error) => { outcome = { error }; });
  loop.runUntil(() => false);
  return outcome;
}

/** Waits until the engine's own promises have done what `scenario` set going. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

const SCENARIOS = {
  'thenables are adopted in a job of their own': (P, log) => {
    P.resolve().then(() => log(1)).then(() => log(2)).then(() => log(3)).then(() => log(4));
    P.resolve().then(() => P.resolve('inner')).then(log);
    P.resolve().then(() => ({ then(f) { log('then'); f('thenable'); } })).then(log);
    new P((f) => f(P.resolve('resolved with a promise'))).then(log);
    log('synchronous');
  },
  'only the first settles': (P, log) => {
    new P((resolve, reject) => { resolve(1); reject(2); resolve(3); throw 4; }).then(log, log);
    new P((_, reject) => { reject(2); throw 4; }).then(log, (error) => log('no', error));
    new P(() => { throw 5; }).catch((error) => log('no', error));
    new P((resolve) => resolve({ then(f) { f(6); throw 7; } })).then(log, log);
    new P((resolve) => resolve({ then(f, r) { r(8); f(9); } })).then(log, (error) => log('no', error));
    new P((resolve) => resolve({ get then() { throw 10; } })).catch((error) => log('no', error));
    const itself = new P((resolve) => setImmediate(() => resolve(itself)));
    itself.catch((error) => log(error.constructor.name));
  },
  'what is no function is passed over': (P, log) => {
    P.resolve(1).then(undefined, 2).then(null).then(log);
    P.reject(3).then(4).catch('x').catch(log);
    P.resolve(1).finally(2).then(log);
  },
  'finally waits, passes on and may fail': (P, log) => {
    P.resolve('kept').finally((...values) => { log(values.length); return 'dropped'; }).then(log);
    P.reject('reason').finally(() => P.resolve('dropped')).catch((error) => log('no', error));
    P.resolve(1).finally(() => { throw 'thrown'; }).catch((error) => log('no', error));
    P.resolve(1).finally(() => P.reject('rejected')).catch((error) => log('no', error));
  },
  'all and allSettled keep the order': (P, log) => {
    const later = (value, ticks) => (ticks ? P.resolve().then(() => later(value, ticks - 1)) : value);
    P.all([later('a', 3), 'b', { then: (f) => f('c') }, later('d', 1)]).then((values) => log('all', ...values));
    P.all([]).then((values) => log('none', values.length));
    P.all([1, P.reject('x'), P.reject('y')]).catch((error) => log('no', error));
    P.allSettled([later('a', 2), P.reject('b'), 3]).then((values) => log(JSON.stringify(values)));
    P.all('héllo').then((values) => log(values.join('-')));
    P.all(5).catch((error) => log(error.constructor.name));
    P.all().catch((error) => log(error.constructor.name));
  },
  'any and race': (P, log) => {
    P.race([new P(() => {}), P.reject('first'), P.resolve('second')]).then(log, (error) => log('no', error));
    P.any([P.reject(1), P.resolve().then(() => 'one'), P.resolve('two')]).then(log);
    P.any([P.reject(1), 2, P.reject(3)]).then(log);
    P.any([P.reject(1), P.reject(2)]).catch((error) => log(error.constructor.name, ...error.errors));
    P.any([]).catch((error) => log(error.constructor.name, error.errors.length));
  },
  'iterators are closed when the constructor fails, and not when they fail themselves': (P, log) => {
    const items = (next) => ({ [Symbol.iterator]: () => ({ next, return() { log('closed'); return {}; } }) });
    class Fails extends P { static resolve() { throw 'no resolve'; } }
    Fails.all(items(() => ({ value: 1, done: false }))).catch(log);
    P.all(items(() => { throw 'no next'; })).catch(log);
    class None extends P { static get resolve() { return undefined; } }
    None.race(items(() => ({ done: true }))).catch((error) => log(error.constructor.name));
  },
  'subclasses make their own': (P, log) => {
    class Mine extends P {}
    const mine = Mine.resolve(1);
    log(mine instanceof Mine, mine.then() instanceof Mine, mine.finally(() => {}) instanceof Mine, Mine.all([]) instanceof Mine);
    log(Mine.resolve(mine) === mine, P.resolve(mine) === mine, Mine.reject(0).catch(() => {}) instanceof Mine);
    class Plain extends P { static get [Symbol.species]() { return P; } }
    log(Plain.resolve(1).then() instanceof Plain, Plain[Symbol.species] === P, P[Symbol.species] === P);
    mine.then((value) => { log(value); return P.resolve('then'); }).then(log);
    class Counts extends P { then(...handlers) { log('then'); return super.then(...handlers); } }
    P.resolve(new Counts((resolve) => resolve('counted'))).then(log);
  },
  'misuse is refused': (P, log) => {
    const attempt = (f) => { try { log('no error', typeof f()); } catch (error) { log(error.constructor.name); } };
    attempt(() => P());
    attempt(() => new P());
    attempt(() => P.prototype.then.call({}, log));
    attempt(() => P.resolve.call(undefined, 1));
    attempt(() => P.all.call({}, []));
    attempt(() => P.resolve.call(function () {}, 1));
    attempt(() => P.reject.call(function (f) { f(() => {}, () => {}); f(() => {}, () => {}); }, 1));
    attempt(() => P.prototype.finally.call(1, log));
  },
  'as other objects of the language': (P, log) => {
    log(Object.prototype.toString.call(P.resolve()), P.name, P.length, P.prototype.then.length, P.all.length);
    log(Object.keys(P).length, Object.keys(P.prototype).length, Object.getOwnPropertyNames(P.prototype).sort().join());
    log(Object.keys(P.resolve()).length);
  },
};

for (const [what, scenario] of Object.entries(SCENARIOS)) {
  test(`as the engine's: ${what}`, async () => {
    const here = surroundings();
    const [ours, theirs] = [[], []];
    scenario(globalThis.Promise, (...values) => theirs.push(values.map(String).join(' ')));
    await turn();
    await turn();
    scenario(here.Promise, (...values) => ours.push(values.map(String).join(' ')));
    here.loop.runUntil(() => false);
    await turn();
    here.loop.runUntil(() => false);
    assert.deepEqual(ours, theirs);
    assert.ok(ours.length > 2);
  });
}

test('withResolvers and try', () => {
  const here = surroundings();
  const { Promise } = here;
  const { promise, resolve } = Promise.withResolvers();
  here.setTimeout(resolve, 5, 'resolved');
  assert.deepEqual(ended(here, promise), { value: 'resolved' });
  assert.deepEqual(ended(here, Promise.try((a, b) => a + b, 1, 2)), { value: 3 });
  assert.deepEqual(ended(here, Promise.try(() => { throw 'thrown'; })), { error: 'thrown' });
  assert.equal(ended(here, new Promise(() => {})), 'pending');
});

test('rejections that nobody handles are told, until somebody does', () => {
  const { Promise, alone, loop } = surroundings();
  const early = Promise.reject('early');
  Promise.reject('handled').catch(() => {});
  const passed = Promise.reject('passed on').then(() => {});
  loop.runJobs();
  assert.deepEqual([...alone.values()], ['early', 'passed on']);
  early.catch(() => {});
  passed.catch(() => {});
  loop.runJobs();
  assert.deepEqual([...alone.values()], []);
});

test("the engine's own promises are refused, wherever they come in", () => {
  const here = surroundings();
  const { Promise } = here;
  const theirs = globalThis.Promise.resolve(1);
  const ways = [
    () => Promise.resolve(theirs),
    () => new Promise((resolve) => resolve(theirs)),
    () => Promise.resolve().then(() => theirs),
    () => Promise.all([1, theirs]),
    () => Promise.resolve({ then: (f) => f(theirs) }),
  ];
  for (const way of ways) assert.equal(ended(here, way()).error?.message, 'not ours', String(way));
});

test('Array.fromAsync takes what is asynchronous and what is not', async () => {
  const here = surroundings();
  const real = globalThis.Promise;
  globalThis.Promise = here.Promise;
  try {
    const { Promise } = here;
    let closed = 0;
    const counting = (name, wrapped) => ({
      at: 0,
      [name]() { return this; },
      next() { const done = ++this.at > 3; return wrapped({ done, value: this.at }); },
      return() { closed += 1; return wrapped({}); },
    });
    const plain = (value) => value;
    const later = (value) => new Promise((resolve) => here.setTimeout(resolve, 1, value));
    assert.deepEqual(ended(here, arrayFromAsync(counting(Symbol.asyncIterator, later))), { value: [1, 2, 3] });
    assert.deepEqual(ended(here, arrayFromAsync([later('a'), 'b'], (text, at) => later(text + at))), { value: ['a0', 'b1'] });
    assert.deepEqual(ended(here, arrayFromAsync({ length: 2, 0: 'x', 1: later('y') })), { value: ['x', 'y'] });
    const fails = () => { throw 'no map'; };
    assert.deepEqual(ended(here, arrayFromAsync(counting(Symbol.asyncIterator, later), fails)), { error: 'no map' });
    assert.deepEqual(ended(here, arrayFromAsync(counting(Symbol.iterator, plain), fails)), { error: 'no map' });
    assert.equal(closed, 2);
    assert.ok(ended(here, arrayFromAsync(null)).error instanceof TypeError);
  } finally {
    globalThis.Promise = real;
  }
});
