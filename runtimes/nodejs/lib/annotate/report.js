'use strict';
// The annotation's report, for the ACK of FREEZE.

const { isLooping } = require('./targets');

const MOST = 200;
const ORDER = ['interpreted', 'sparkplug', 'maglev', 'turbofan'];
const MOST_NAMED = 10;

function report({ driver, natives, trace, targets, converged, notes }) {
  const all = [...notes];
  if (driver.failure !== null) all.push(`warm-up stopped: ${driver.failure}`);
  const known = natives === null || targets === null ? [] : targets.all.map((target) => ({ target, tier: tier(target, natives, converged && trace !== null) }));
  known.sort((a, b) => ORDER.indexOf(a.tier) - ORDER.indexOf(b.tier) || b.target.calls - a.target.calls);
  if (known.length > 0) explain(known, converged, trace !== null, driver, all);
  if (targets !== null && targets.notReached > 0) {
    all.push(`functions of the code that the warm-up did not reach, compiled when they are first called: ${targets.notReached}`);
  }
  if (known.length > MOST) all.push(`${known.length} functions were reached; the report names ${MOST}`);
  return {
    warmupCalls: driver.calls,
    warmupMs: Math.round(driver.elapsedMs * 1000) / 1000,
    functions: known.slice(0, MOST).map(entry),
    optimised: known.filter((one) => one.tier === 'turbofan').length,
    reached: known.length,
    notes: all,
  };
}

function entry({ target, tier }) {
  return { name: target.name || '(anonymous)', file: target.script.file, line: target.line, tier, calls: target.calls };
}

/**
 * A function that is created in each call has no object to query. V8's log says how it was compiled. If V8 has stopped compiling even at
 * the lower threshold, the remaining ones are inlined into the optimised code of their callers.
 */
function tier(target, natives, isProved) {
  if (target.objects.length > 0) {
    const tiers = target.objects.map((f) => natives.tier(f));
    return tiers.reduce((best, one) => (ORDER.indexOf(one) > ORDER.indexOf(best) ? one : best));
  }
  if (isLooping(target)) return 'interpreted';
  if (target.compiled !== null) return target.compiled;
  return isProved ? 'turbofan' : 'interpreted';
}

function explain(known, converged, hasRecord, driver, notes) {
  const named = (what, list, label) => {
    if (list.length === 0) return;
    const more = list.length > MOST_NAMED ? ` and ${list.length - MOST_NAMED} more` : '';
    notes.push(`${what}: ${list.slice(0, MOST_NAMED).map(({ target }) => label(target)).join(', ')}${more}`);
  };
  named('left behind', known.filter(({ target, tier }) => tier !== 'turbofan' && target.verdict !== null), (target) => `${target.label}: ${target.verdict}`);
  named('optimised and thrown away again and again, so that calls differ in speed', known.filter(({ target }) => isLooping(target)), (target) => target.label);
  if (converged) {
    const unseen = known.filter(({ target }) => target.objects.length === 0 && target.compiled === null);
    const what = hasRecord ? 'not compiled by itself, because its callers contain it' : 'not known, for want of V8\'s record';
    named(what, unseen, (target) => target.label);
  } else if (driver.failure === null) {
    const bound = driver.calls >= driver.limit ? `${driver.limit} calls` : `${driver.budgetMs} ms`;
    notes.push(`the bound of ${bound} came before V8 was done: a first call may still compile`);
  }
}

module.exports = { report };
