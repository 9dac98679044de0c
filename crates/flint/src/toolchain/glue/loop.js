// The event loop: jobs run in order at once, then timers when they are due. Time comes from `clock`, which
// returns the milliseconds (`now()`) and lets them pass (`sleep(ms)`).
const LONGEST = 2 ** 31 - 1; // milliseconds: what fits the timers of other engines

/** What `setTimeout` and the like give: a number to browsers, an object with these methods to Node.js. */
class Timer {
  constructor(id, callback, values, every) {
    Object.assign(this, { id, callback, values, every });
  }
  // A call ends when its promise is settled, so no timer keeps anything alive.
  ref() { return this; }
  unref() { return this; }
  hasRef() { return true; }
  [Symbol.toPrimitive]() { return this.id; }
}

export class Loop {
  #clock;
  #jobs = [];
  #timers = []; // by when they are due, those that are due together by when they were set
  #immediates = [];
  #ready = []; // timers whose time has come, and immediates
  #set = new Map(); // every timer and immediate that may still run, by its id
  #ids = 0;

  constructor(clock) {
    this.#clock = clock;
  }

  /** Has `job` run before any timer, after what is already there. */
  enqueue(job) {
    this.#jobs.push(job);
  }

  /** Runs all jobs, and what those add. */
  runJobs() {
    while (this.#jobs.length > 0) {
      const jobs = this.#jobs;
      this.#jobs = [];
      for (const job of jobs) job();
    }
  }

  get waits() {
    return this.#set.size > 0;
  }

  /** Lets the next timer run, and the jobs that it adds; waits for it if need be. Whether there was one. */
  step() {
    let next;
    do {
      if (this.#ready.length === 0) this.#gather();
      next = this.#ready.shift();
      if (!next) return false;
    } while (this.#set.get(next.id) !== next);
    if (next.every === undefined) this.#set.delete(next.id);
    try {
      next.callback(...next.values);
    } finally {
      if (next.every !== undefined && this.#set.has(next.id)) this.#await(next, next.every);
    }
    this.runJobs();
    return true;
  }

  /** Runs until `done()`, which is asked when no job is left. Whether it was reached before there was nothing left to run. */
  runUntil(done) {
    this.runJobs();
    while (!done()) if (!this.step()) return false;
    return true;
  }

  /** The functions that a handler finds as globals. */
  globals() {
    const after = (every) => (callback, delay, ...values) => {
      const length = Math.min(Math.max(Math.trunc(Number(delay)) || 0, 0), LONGEST);
      return this.#await(this.#timer(callback, values, every ? length : undefined), length);
    };
    const clear = (timer) => {
      // Timers can also be cleared by their number.
      if (timer !== null && timer !== undefined && typeof timer !== 'symbol') this.#set.delete(Number(timer));
    };
    return {
      queueMicrotask: (callback) => this.enqueue(called(callback)),
      setTimeout: after(false),
      setInterval: after(true),
      setImmediate: (callback, ...values) => {
        const timer = this.#timer(callback, values);
        this.#immediates.push(timer);
        return timer;
      },
      clearTimeout: clear,
      clearInterval: clear,
      clearImmediate: clear,
    };
  }

  #timer(callback, values, every) {
    const timer = new Timer(++this.#ids, called(callback), values, every);
    this.#set.set(timer.id, timer);
    return timer;
  }

  #await(timer, length) {
    timer.due = this.#clock.now() + length;
    let [low, high] = [0, this.#timers.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#timers[middle].due <= timer.due) low = middle + 1;
      else high = middle;
    }
    this.#timers.splice(low, 0, timer);
    return timer;
  }

  /** Makes ready what is due by now; when nothing is and there is no immediate, waits for the first. What becomes due meanwhile comes after the immediates. */
  #gather() {
    while (this.#timers.length > 0 && !this.#set.has(this.#timers[0].id)) this.#timers.shift();
    if (this.#timers.length > 0) {
      let now = this.#clock.now();
      while (this.#immediates.length === 0 && this.#timers[0].due > now) {
        this.#clock.sleep(this.#timers[0].due - now);
        now = this.#clock.now();
      }
      const later = this.#timers.findIndex((timer) => timer.due > now);
      this.#ready = this.#timers.splice(0, later < 0 ? this.#timers.length : later);
    }
    this.#ready.push(...this.#immediates);
    this.#immediates = [];
  }
}

const called = (callback) => {
  if (typeof callback !== 'function') throw new TypeError(`the callback is not a function: it is ${typeof callback}`);
  return callback;
};
