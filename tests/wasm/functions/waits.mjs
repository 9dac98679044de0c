// Asynchronous, and from two modules.
import { pause } from './lib/pause.mjs';

let calls = 0;
export async function main({ fail }) {
  await pause(5);
  if (fail) throw new Error(`asked to fail: ${fail}`);
  return { calls: ++calls, random: [Math.random(), Math.random()], now: Date.now() };
}
