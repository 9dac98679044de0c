// Awaits in loops, an asynchronous generator, and a module beside.

import { delay, twice } from './helper.mjs';

async function* numbers(n) {
  for (let i = 0; i < n; i++) yield await twice(i);
}

async function total(n) {
  let sum = 0;
  for await (const number of numbers(n)) sum += number;
  for (let i = 0; i < n; i++) sum += await twice(i);
  return sum;
}

export async function main({ n }) {
  await delay();
  const sums = await Promise.all([total(n), total(n + 1)]);
  return { sum: sums[0] + sums[1] };
}
