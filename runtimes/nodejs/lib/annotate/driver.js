'use strict';
// Replays the kept requests in turn, within given limits.

const now = performance.now.bind(performance); // user code may replace the global one

class Driver {
  constructor({ replay, count, calls, budgetMs }) {
    this.replay = replay;
    this.count = Math.max(1, count);
    this.limit = count > 0 ? calls : 0;
    this.budgetMs = budgetMs;
    this.calls = 0;
    this.longestMs = 0;
    this.failure = null;
    this.started = now();
    // A call that never ends is abandoned after twice the budget.
    this.stuck = new Promise((resolve) => {
      this.timer = setTimeout(resolve, 2 * budgetMs, { stuck: true });
    });
  }

  get elapsedMs() {
    return now() - this.started;
  }

  /** The time left for work between calls; one call may exceed the budget. */
  get spareMs() {
    return this.budgetMs + this.longestMs - this.elapsedMs;
  }

  /** The first call is made even without time left. */
  get exhausted() {
    return this.failure !== null || this.calls >= this.limit || (this.calls > 0 && this.elapsedMs >= this.budgetMs);
  }

  /** Makes up to `calls` calls; returns how many were made. */
  async run(calls) {
    const before = this.calls;
    for (let i = 0; i < calls && !this.exhausted; i++) await this.call();
    return this.calls - before;
  }

  async call() {
    const index = this.calls % this.count;
    const began = now();
    this.calls++;
    try {
      const result = await Promise.race([this.replay(index), this.stuck]);
      if (result && result.stuck === true) this.failure = `warm-up request ${index} did not end within ${2 * this.budgetMs} ms`;
      else if (result && result.ok === false) this.failure = `warm-up request ${index} failed${result.message === undefined ? '' : `: ${describe(result.message)}`}`;
    } catch (error) {
      this.failure = `warm-up request ${index} failed: ${describe(error)}`;
    }
    this.longestMs = Math.max(this.longestMs, now() - began);
  }

  stop() {
    clearTimeout(this.timer);
  }
}

function describe(error) {
  try {
    return String(error instanceof Error ? error.message : error).slice(0, 500);
  } catch {
    return 'an error that cannot be printed';
  }
}

module.exports = { Driver, describe };
