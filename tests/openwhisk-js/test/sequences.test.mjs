// Sequences and conductor actions through the client: real functions, real records.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server, failure, record } from '../lib/server.mjs';

let server;
let ow;
before(async () => {
  server = await Server.start();
  ow = server.client();
  const actions = {
    increment: 'function main(params) { return { n: params.n + 1 } }',
    double: 'function main(params) { return { n: params.n * 2 } }',
    refuse: "function main(params) { return { error: 'no ' + params.n } }",
    list: 'function main(params) { return [params.n, params.n + 1] }',
    sum: 'function main(list) { return { n: list.reduce((a, b) => a + b) } }',
  };
  for (const [name, action] of Object.entries(actions)) await ow.actions.create({ name, action });
  // Counts to params.to by calling `increment`, then says so.
  const action = `function main(params) {
    if (params.error) return { error: params.error };
    const to = params.to ?? params.goal;
    if (params.n < to) return { action: 'increment', params: { n: params.n }, state: { goal: to } };
    return { params: { reached: params.n } };
  }`;
  await ow.actions.create({ name: 'counter', action, annotations: { conductor: true } });
  const curious = `function main(params) {
    if (params.error) return { params: { told: params.error, kept: params.kept } };
    return { action: params.call, state: { kept: 1 } };
  }`;
  await ow.actions.create({ name: 'curious', action: curious, annotations: { conductor: true } });
});
after(() => server.stop());

const annotation = (entity, key) => entity.annotations.find((pair) => pair.key === key)?.value;
const sequence = (...components) => ({ kind: 'sequence', components });
const create = (name, ...components) => ow.actions.create({ name, action: { exec: sequence(...components) } });
const invoke = (name, params) => ow.actions.invoke({ name, params, blocking: true });

test('a sequence is created, read, listed and deleted', async () => {
  const created = await create('crud', '/_/increment', '/guest/double');
  assert.deepEqual(created.exec, sequence('/guest/increment', '/guest/double'));
  assert.equal(annotation(created, 'exec'), 'sequence');
  assert.deepEqual(created.parameters, [{ key: '_actions', value: created.exec.components }]);
  const read = await ow.actions.get({ name: 'crud' });
  assert.deepEqual(read, created);
  const listed = (await ow.actions.list({ limit: 200 })).find((action) => action.name === 'crud');
  assert.equal(annotation(listed, 'exec'), 'sequence');
  const updated = await ow.actions.update({ name: 'crud', action: { exec: sequence('/_/double') } });
  assert.equal(updated.version, '0.0.2');
  assert.deepEqual(updated.exec.components, ['/guest/double']);
  await ow.actions.delete({ name: 'crud' });
  assert.equal((await failure(ow.actions.get({ name: 'crud' }))).statusCode, 404);
});

test('the client makes a sequence of a list of names', async () => {
  const created = await ow.actions.create({ name: 'listed', sequence: ['/_/increment', '/_/double'] });
  assert.deepEqual(created.exec, sequence('/guest/increment', '/guest/double'));
});

test('what cannot be a sequence is refused', async () => {
  for (const [components, text] of [
    [[], 'No component specified for the sequence.'],
    [['/_/none'], 'Sequence component does not exist.'],
    [['/_/self'], 'Sequence may not refer to itself.'],
    [Array(51).fill('/_/double'), 'Too many actions in the sequence.'],
  ]) {
    const error = await failure(create('self', ...components));
    assert.equal(error.statusCode, 400);
    assert.equal(error.error.error, text);
  }
});

test('each component gets what the one before answered, and the record says all', async () => {
  await create('chain', '/_/increment', '/_/double');
  const answer = await invoke('chain', { n: 1 });
  assert.deepEqual(answer.response.result, { n: 4 });
  assert.equal(annotation(answer, 'kind'), 'sequence');
  assert.equal(annotation(answer, 'topmost'), true);
  assert.equal(answer.logs.length, 2);
  const steps = [];
  for (const id of answer.logs) steps.push(await record(ow, id));
  assert.deepEqual(steps.map((step) => step.name), ['increment', 'double']);
  for (const step of steps) {
    assert.equal(step.cause, answer.activationId);
    assert.equal(annotation(step, 'causedBy'), 'sequence');
  }
  const stored = await record(ow, answer.activationId);
  assert.deepEqual(stored.logs, answer.logs);
  assert.deepEqual(await ow.activations.result({ name: answer.activationId }), stored.response);
});

test('only the result, or only the id, when that is asked for', async () => {
  await create('modes', '/_/increment', '/_/double');
  const result = await ow.actions.invoke({ name: 'modes', params: { n: 4 }, blocking: true, result: true });
  assert.deepEqual(result, { n: 10 });
  const { activationId } = await ow.actions.invoke({ name: 'modes', params: { n: 5 } });
  const stored = await record(ow, activationId);
  assert.deepEqual(stored.response.result, { n: 12 });
});

test('an error ends it', async () => {
  await create('failing', '/_/increment', '/_/refuse', '/_/double');
  const error = await failure(invoke('failing', { n: 1 }));
  assert.equal(error.statusCode, 502);
  assert.deepEqual(error.error.response.result, { error: 'no 2' });
  assert.equal(error.error.logs.length, 2);
});

test('lists pass from one to the next', async () => {
  await create('lists', '/_/list', '/_/sum');
  assert.deepEqual((await invoke('lists', { n: 3 })).response.result, { n: 7 });
});

test('a sequence within a sequence is one step', async () => {
  await create('inner', '/_/increment', '/_/increment');
  await create('outer', '/_/inner', '/_/double', '/_/inner');
  const answer = await invoke('outer', { n: 0 });
  assert.deepEqual(answer.response.result, { n: 6 });
  assert.equal(answer.logs.length, 3);
  const inner = await record(ow, answer.logs[0]);
  assert.equal(inner.cause, answer.activationId);
  assert.equal(annotation(inner, 'topmost'), false);
  assert.equal(inner.logs.length, 2);
});

test('a conductor counts by calling another', async () => {
  const answer = await invoke('counter', { n: 0, to: 3 });
  assert.deepEqual(answer.response.result, { reached: 3 });
  assert.equal(annotation(answer, 'conductor'), true);
  assert.equal(annotation(answer, 'topmost'), true);
  assert.equal(answer.logs.length, 7);
  const first = await record(ow, answer.logs[0]);
  assert.equal(first.name, 'counter');
  assert.equal(first.cause, answer.activationId);
});

test('a conductor is told what went wrong', async () => {
  for (const [call, told] of [
    ['none', "Failed to resolve action with name 'guest/none' during composition."],
    ['/other/a', "Failed entitlement check for action with name 'other/a' during composition."],
    [7, 'Failed to parse action name from json value 7 during composition.'],
  ]) {
    const answer = await invoke('curious', { call });
    assert.deepEqual(answer.response.result, { told, kept: 1 });
  }
});

test('a composition that calls too much is told so', async () => {
  const error = await failure(invoke('counter', { n: 0, to: 1000 }));
  assert.equal(error.statusCode, 502);
  assert.deepEqual(error.error.response.result, { error: 'Too many actions in the composition.' });
});

test('a conductor in a sequence, and a sequence in a conductor', async () => {
  await create('counted', '/_/counter');
  assert.deepEqual((await invoke('counted', { n: 1, to: 3 })).response.result, { reached: 3 });
  await create('plus', '/_/increment', '/_/increment');
  const action = `function main(params) {
    if (params.visited) return { params: { n: params.n } };
    return { action: params.call, params: { n: params.n }, state: { visited: true } };
  }`;
  await ow.actions.create({ name: 'visitor', action, annotations: { conductor: true } });
  const answer = await invoke('visitor', { call: '/_/plus', n: 1 });
  assert.deepEqual(answer.response.result, { n: 3 });
  const plus = await record(ow, answer.logs[1]);
  assert.deepEqual([plus.name, plus.cause, plus.logs.length], ['plus', answer.activationId, 2]);
});
