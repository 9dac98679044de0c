'use strict';
// Optimises the code that a function's warm-up requests reach, before the process is frozen and forked. How and why: docs/snapshots.md,
// 'What the annotator does'.

const v8 = require('v8');
const vm = require('vm');
const { Driver, describe } = require('./annotate/driver');
const { openNatives } = require('./annotate/natives');
const { Observer } = require('./annotate/observer');
const { report } = require('./annotate/report');
const { Threshold, setThreshold } = require('./annotate/threshold');
const { Targets } = require('./annotate/targets');
const { Trace } = require('./annotate/trace');
const { collectAll } = require('./collect');

const BATCH = 64;
const QUIET = 16;
const PROBING = 64; // calls of each request, so that its rarely called functions get warm
const COUNTING = 16; // rounds of all requests
const ENOUGH_WAITING = 512; // calls after which V8 is not waited for any longer
const PATIENCE = 0.03; // as a fraction of the budget
const LOOKING_MS = 150; // how long finding all functions, or a collection, may take

/**
 * Replays the `count` kept requests in turn with `replay(i)` until all functions under `root` that they reach are optimised,
 * at most `calls` times and for `budgetMs` milliseconds (exceeded by one call, or two collections, at most). Never rejects.
 *
 * `collect` is V8's `gc`, where the caller has it already. `relearn()` runs what else has to be quick afterwards.
 *
 * Returns `{ warmupCalls, warmupMs, functions: [{ name, file, line, tier, calls }], optimised, reached, notes }`.
 */
async function annotate(options) {
  const driver = new Driver(options);
  const run = new Annotation(driver, options);
  try {
    await run.all();
  } catch (error) {
    run.notes.push(`the annotator stopped: ${describe(error)}`);
  } finally {
    driver.stop();
  }
  return report(run);
}

class Annotation {
  constructor(driver, { root, collect, relearn }) {
    this.driver = driver;
    this.root = root.replace(/\/+$/, '');
    this.collect = collect;
    this.relearn = relearn;
    this.natives = null;
    this.trace = null;
    this.targets = null;
    this.converged = false;
    this.notes = [];
  }

  async all() {
    keepWhatIsCompiled();
    if (this.collect === undefined) this.collect = findCollector();
    try {
      setThreshold(Threshold.EAGER);
      const found = await this.discover();
      // To find all functions V8 collects garbage, and forgets the object shapes that they have met.
      if (this.relearn !== undefined) this.relearn();
      if (found) await this.warmUp();
      else await this.driver.run(this.driver.limit);
    } finally {
      setThreshold(Threshold.USUAL);
      if (this.trace !== null) this.trace.close();
    }
  }

  /** Runs some rounds of the requests while V8 counts calls, then finds all function objects. False if this V8 does not permit that. */
  async discover() {
    let observer;
    try {
      this.natives = openNatives();
      observer = new Observer();
    } catch (error) {
      this.notes.push(`functions cannot be looked at (${describe(error)}): warmed up by calls alone`);
      return false;
    }
    try {
      this.trace = Trace.open(); // not before the natives are made, which V8 would print
      observer.startCounting();
      await this.countingRounds();
      this.targets = Targets.from(observer.takeCounts(), this.root);
      if (this.driver.spareMs < LOOKING_MS) this.notes.push('no time was left to look at the functions: give the warm-up a larger budget');
      else this.targets.attach(observer.liveFunctions(), this.natives);
      return true;
    } finally {
      observer.close();
    }
  }

  /**
   * V8 counts calls of a function that is created in each call only after it has run for a while, so several rounds are made if they are
   * cheap.
   */
  async countingRounds() {
    const { driver } = this;
    for (let i = 0; i < COUNTING && (i === 0 || driver.elapsedMs < driver.budgetMs * PATIENCE); i++) await driver.run(driver.count);
  }

  async warmUp() {
    // V8 optimises what is warm by itself; the remaining functions are optimised explicitly.
    await this.untilQuiet(1 / 2, QUIET);
    // A full collection drops the code of functions that are created in each call, since nothing else references it. So it comes here
    // rather than at the end, and the next pass restores that code, with a lower threshold so that it does not take hundreds of calls.
    if (this.hasTime()) {
      await collectAll(this.collect);
      this.targets.collected();
    }
    setThreshold(Threshold.PROBING);
    await this.untilQuiet(1 / 2, PROBING * this.driver.count);
    setThreshold(Threshold.USUAL);
    this.converged = await this.untilQuiet(1, QUIET);
    if (this.hasTime()) this.collect({ type: 'minor' });
  }

  hasTime() {
    return this.driver.failure === null && this.driver.spareMs > LOOKING_MS;
  }

  /**
   * Replays until V8 has stopped compiling and no function is left. False if a limit comes first: `share` of the remaining calls or of the
   * remaining time.
   */
  async untilQuiet(share, calls) {
    const { driver, natives, targets } = this;
    if (driver.failure !== null) return false;
    const lastCall = driver.calls + (driver.limit - driver.calls) * share;
    const until = driver.elapsedMs + (driver.budgetMs - driver.elapsedMs) * share;
    let quiet = { calls: 0, since: driver.elapsedMs };
    let waited = 0;
    for (let size = driver.count; ; size = this.nextBatch(size)) {
      const began = driver.elapsedMs;
      const done = await driver.run(size);
      natives.finish();
      if (this.look()) quiet = { calls: 0, since: driver.elapsedMs };
      else quiet = { calls: quiet.calls + done, since: Math.min(quiet.since, began) };
      waited += done;
      if (driver.failure !== null) return false;
      const left = targets.left(natives);
      const isLast = driver.exhausted || driver.calls >= lastCall || driver.elapsedMs >= until;
      if (left.length === 0 && this.isEnough(quiet, calls)) return true;
      if (left.length > 0 && (isLast || waited >= ENOUGH_WAITING || this.isEnough(quiet, calls))) {
        if (this.optimise(left)) quiet = { calls: 0, since: driver.elapsedMs };
        waited = 0;
      }
      if (isLast) return false;
    }
  }

  /** Whether each request has run twice and enough calls have been made, or, if they are slow, enough time has passed. */
  isEnough(quiet, calls) {
    const { count, elapsedMs, budgetMs } = this.driver;
    return quiet.calls >= 2 * count && (quiet.calls >= calls || elapsedMs - quiet.since >= budgetMs * PATIENCE);
  }

  /** Twice as many calls as before, within limits. */
  nextBatch(size) {
    const { count, calls, elapsedMs, budgetMs } = this.driver;
    const affordable = Math.ceil((budgetMs * PATIENCE * Math.max(1, calls)) / Math.max(1, elapsedMs));
    return Math.max(count, Math.min(2 * size, BATCH, affordable));
  }

  optimise(left) {
    const act = () => this.targets.optimise(left, this.natives, this.driver);
    return this.trace === null ? act() : this.trace.unwatched(act);
  }

  look() {
    if (this.trace === null) return false;
    return this.targets.book(this.trace.read());
  }
}

/** Keeps V8 from dropping bytecode that has not run for some collections, and hidden classes without objects. */
function keepWhatIsCompiled() {
  v8.setFlagsFromString('--no-flush-bytecode');
  v8.setFlagsFromString('--retain-maps-for-n-gc=100');
}

function findCollector() {
  if (typeof globalThis.gc === 'function') return globalThis.gc;
  v8.setFlagsFromString('--expose-gc');
  try {
    return vm.runInNewContext('gc');
  } finally {
    v8.setFlagsFromString('--no-expose-gc');
  }
}

module.exports = { annotate };
