'use strict';
// Run: node --test runtimes/nodejs/test/*.test.js

const assert = require('node:assert');
const test = require('node:test');
const { optimise } = require('../lib/rehearsal');

/** How often the shim is practised in so much time, when the first call of a clone takes `takesMs`. */
async function practised(spareMs, takesMs) {
  const link = { fd: -1, socket: null, isOpen: true, buffer: Buffer.alloc(4096), arrived() {} };
  const instance = { entry: null, state: 'freezing', link, environment: { apply() {} }, init: {}, calls: new Map() };
  let times = 0;
  const becomeClone = () => {
    times += 1;
    for (const end = performance.now() + takesMs; performance.now() < end;);
  };
  await optimise(instance, becomeClone, spareMs);
  assert.strictEqual(instance.entry, null);
  return times;
}

test('practice ends when the budget is spent, and comes to something without one', async () => {
  const all = await practised(60000, 0);
  assert.ok(all >= 500, `${all}`);
  const within = await practised(300, 20);
  assert.ok(within >= 1 && within <= 15, `${within}`);
  const least = await practised(-1, 20);
  assert.ok(least >= 1 && least <= 5, `${least}`);
});
