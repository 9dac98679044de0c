// What a snapshot must not decide once for all calls. CommonJS, as many handlers are.
let calls = 0;
exports.handler = ({ fail, later }) => {
  if (fail) throw new Error(`asked to fail: ${fail}`);
  if (later) return Promise.resolve({ later: true });
  return { calls: ++calls, random: [Math.random(), Math.random()], now: Date.now() };
};
