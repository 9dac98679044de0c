// Limits of a namespace.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Server, eventually, failure } from '../lib/server.mjs';

test('calls per minute are limited', async (t) => {
  const server = await Server.start({ FLINT_LIMITS__INVOCATIONS_PER_MINUTE: '3' });
  t.after(() => server.stop());
  const ow = server.client();
  await ow.actions.create({ name: 'f', action: 'function main() { return {} }' });
  // A minute may end meanwhile; then it begins anew once.
  const answers = await Promise.all(Array.from({ length: 10 }, () => ow.actions.invoke({ name: 'f' }).catch((error) => error)));
  const refused = answers.filter((answer) => answer.statusCode === 429);
  assert.ok(refused.length >= 4);
  for (const { error } of refused) {
    assert.match(error.error, /^Too many requests in the last minute \(count: \d+, allowed: 3\)\.$/);
    assert.equal(typeof error.code, 'string');
  }
  // Nothing but calls is.
  assert.equal((await ow.actions.list()).length, 1);
});

test('calls at once are limited', async (t) => {
  const server = await Server.start({ FLINT_LIMITS__CONCURRENT_INVOCATIONS: '2' });
  t.after(() => server.stop());
  const ow = server.client();
  const code = 'async function main() { await new Promise((go) => setTimeout(go, 1000)); return {} }';
  await ow.actions.create({ name: 'f', action: code });
  // One of them may itself be refused: a later request can be there before it.
  const call = () => ow.actions.invoke({ name: 'f', blocking: true }).catch((refused) => assert.equal(refused.statusCode, 429));
  const running = [call(), call()];
  const error = await eventually('a refusal', () =>
    failure(ow.actions.invoke({ name: 'f' })).catch(() => undefined),
  );
  assert.equal(error.statusCode, 429);
  assert.equal(error.error.error, 'Too many concurrent requests in flight (count: 2, allowed: 2).');
  await Promise.all(running);
});
