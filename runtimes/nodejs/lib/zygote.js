'use strict';
// A process that is warmed up, frozen, and then only forked: docs/link-protocol.md, "Zygotes and clones".

const fs = require('fs');
const inspector = require('inspector');
const path = require('path');
const v8 = require('v8');
const { runInNewContext } = require('vm'); // kept before it is replaced by one whose contexts are seeded in every clone
const { Threshold, withThreshold } = require('./annotate/threshold');
const flint = require('./flint');
const stdio = require('./stdio');
const tmp = require('./tmp');
const unique = require('./unique');
const warmup = require('./warmup');
const { Ahead } = require('./ahead');
const { endAtOnce } = require('./clone');
const { collectAll } = require('./collect');
const { LeftInTmp } = require('./left_in_tmp');
const { Baseline } = require('./obstacles');
const { releaseConnections } = require('./connections');
const { Kind, encodeFrame } = require('./frame');
const { asWritten, fileLoadedByThread, userStack } = require('./load');

const HELPER = path.join(__dirname, '..', 'native', 'zygote.node');
const SETTLE_MS = 500;
const now = performance.now.bind(performance); // user code may replace the global one

function nothing() {}

/** The process cannot be forked in its present state; the message says what to do. */
class NotForkable extends Error {}

/** Called before user code is loaded: returns `{ zygote }`, or `{ reason }` if this process cannot become one. */
function prepare() {
  if (!fs.existsSync(HELPER)) return { reason: 'the native helper was not built: no C compiler when Flint was built' };
  try {
    const native = require(HELPER);
    native.harden();
    unique.install();
    tmp.install();
    return { zygote: new Zygote(native) };
  } catch (error) {
    return { reason: `the native helper does not work here: ${error.message}` };
  }
}

class Zygote {
  constructor(native) {
    this.native = native;
    this.requests = [];
    this.baseline = null;
    this.left = new LeftInTmp();
  }

  /** Starts what the runtime itself may need later. */
  async settleRuntime() {
    await fs.promises.stat('/'); // starts the thread pool
    process.once('SIGWINCH', nothing); // opens the pipe that delivers signals
    process.removeListener('SIGWINCH', nothing);
  }

  /** Records what exists now as the runtime's own. */
  drawBaseline() {
    this.baseline = new Baseline();
  }

  loaded() {
    unique.loaded();
  }

  /** Keeps a warm-up request until the freeze. */
  keep(head, body) {
    this.left.look();
    this.requests.push({ head, body: Buffer.from(body) });
  }

  /**
   * Freezes `instance` and forks it for every CLONE. `becomeClone(flags)` runs in each clone; nothing more runs in this process.
   * `practice`: two ways to rehearse a clone's path, and functions that neither of them reaches. Rejects with NotForkable if there is an
   * obstacle; then the instance is as before.
   */
  async freeze(instance, options, becomeClone, { rehearse, optimise, further }) {
    const began = now();
    const collect = exposeGc();
    const isWarmedUp = this.requests.length > 0 && options.calls !== 0;
    const budget = warmup.budget(options);
    const ahead = budget > 0 ? new Ahead({ user: isWarmedUp ? [] : [asWritten(instance.entry)], shim: further, root: path.dirname(instance.file) }) : null;
    if (isWarmedUp) rehearse();
    else withThreshold(Threshold.WITHIN_PRACTICE, rehearse);
    const { report, collected } = await warmup.run(instance, this.requests, options, { collect, practise: rehearse });
    await runHooks();
    this.requests = [];
    instance.environment.apply({});
    releaseConnections();
    await stdio.flush();
    await this.settle();
    const left = this.left.found();
    if (typeof left === 'string') throw new NotForkable(left);
    await instance.link.detach();
    // A full collection drops optimised code that only a past call referenced; the annotator triggers it in time.
    if (!collected && isWarmedUp) await collectAll(collect);
    else if (!collected) collect();
    if (!isWarmedUp && budget > 0) await optimise(budget - (now() - began));
    ahead?.compile();
    finishSweeping();
    collect({ type: 'minor' });
    if (ahead?.note) report.notes.push(ahead.note);
    report.notes.push(...unique.notes());
    this.native.trim();
    report.hugePageBytes = options.hugePages === false ? 0 : this.native.hugePages();
    report.rssBytes = process.memoryUsage.rss();
    this.left.keep(left); // not before the rehearsal has ended
    await this.serve(instance, report, becomeClone);
  }

  /**
   * Forks in a turn of the event loop of its own, so that no event of the zygote is half handled in a clone. The promise never settles in
   * clones; it rejects if the process cannot be frozen after all.
   */
  serve(instance, report, becomeClone) {
    const ack = encodeFrame(Kind.ACK, false, 0, Buffer.from(JSON.stringify(report)));
    const hello = Buffer.from(`${JSON.stringify(instance.hello).slice(0, -1)},"clone":`);
    endAtOnce(this.native);
    return new Promise((_, reject) => {
      setImmediate(() => {
        let flags;
        try {
          flags = this.native.serve(ack, hello);
        } catch (error) {
          reject(error);
          return;
        }
        becomeClone(flags);
      });
    });
  }

  /** Waits briefly for what is about to end by itself. */
  async settle() {
    const file = fileLoadedByThread();
    if (file !== null) {
      throw new NotForkable(`Node.js ${process.versions.node} loads ${path.basename(file)}, an ES module that nothing marks as one, by a thread, which no copy would have: ` +
        'name the file .mjs, put "type": "module" into package.json, or use Node.js 22.7 or newer');
    }
    for (const end = Date.now() + SETTLE_MS; ;) {
      await new Promise((resolve) => { setImmediate(resolve); });
      const obstacles = this.baseline.obstacles();
      if (obstacles.length === 0) return;
      if (Date.now() > end) throw new NotForkable(obstacles.join('; '));
      await new Promise((resolve) => { setTimeout(resolve, 10); });
    }
  }
}

async function runHooks() {
  try {
    await flint.runBefore();
  } catch (error) {
    throw new NotForkable(`A flint.beforeSnapshot hook has failed: ${userStack(error)}`);
  }
}

/**
 * After a full collection V8 sweeps a page when it next allocates there, so every clone would do so and copy the page. Iterating over the
 * heap, as this profile does, forces all pages to be swept.
 */
function finishSweeping() {
  const session = new inspector.Session();
  session.connect();
  try {
    session.post('Profiler.enable');
    session.post('Profiler.getBestEffortCoverage', nothing);
    session.post('Profiler.disable');
  } finally {
    session.disconnect();
  }
}

/** The engine's collector; the flag is off again before user code could see it. */
function exposeGc() {
  v8.setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc');
  v8.setFlagsFromString('--no-expose-gc');
  return collect;
}

module.exports = { NotForkable, prepare };
