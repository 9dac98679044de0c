// What a snapshot must not decide once for all calls.
let calls = 0;
export const handler = ({ fail, later }) => {
  if (fail) throw new Error(`asked to fail: ${fail}`);
  if (later) return Promise.resolve(1);
  return { calls: ++calls, random: [Math.random(), Math.random()], now: Date.now() };
};
