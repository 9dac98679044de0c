// What a handler may do with promises and timers; `what` names it.
const pause = (ms, value) => new Promise((resolve) => setTimeout(resolve, ms, value));

const left = { job: false, timer: false };
Promise.resolve().then(() => { left.job = true; });
setTimeout(() => { left.timer = true; }, 1);

let closed = false;
async function* numbers() {
  try {
    for (let n = 1; ; n += 1) {
      await pause(1);
      yield n;
    }
  } finally {
    await pause(1);
    closed = true;
  }
}

const ways = {
  async pause() {
    const began = Date.now();
    await pause(50);
    return { milliseconds: Date.now() - began };
  },
  async together() {
    const ended = [];
    const one = async (ms, name) => {
      ended.push(await pause(ms, name));
      return name;
    };
    return { values: await Promise.all([one(60, 'c'), one(20, 'a'), one(40, 'b')]), ended };
  },
  async generator() {
    const items = [];
    for await (const n of numbers()) {
      if (n > 3) break;
      items.push(n);
    }
    return { items, closed, array: await Array.fromAsync(items, (n) => pause(1, n * 10)) };
  },
  async order() {
    const order = [];
    setImmediate(() => order.push('immediate'));
    setTimeout(() => order.push('timer'));
    queueMicrotask(() => {
      order.push('job 1');
      queueMicrotask(() => order.push('job 3'));
    });
    Promise.resolve().then(() => order.push('job 2'));
    order.push('synchronous');
    await pause(20);
    return { order };
  },
  async import() {
    const { imported } = await import('./imported.mjs');
    return { imported };
  },
  async loaded() {
    await pause(20);
    return left;
  },
  async dropped() {
    setTimeout(() => console.log('too late'), 30_000);
    setInterval(() => console.log('too late'), 30_000);
    return { answered: true };
  },
  async rejected() {
    await pause(1);
    throw new Error('rejected later');
  },
  async thrown() {
    setTimeout(() => { throw new Error('thrown by a timer'); });
    await pause(20);
  },
  async alone() {
    Promise.reject(new Error('alone'));
    return { answered: true };
  },
  never: () => new Promise(() => {}),
  native: () => new Function('return (async () => 1)()')(),
};

export const main = ({ what }) => ways[what]();
