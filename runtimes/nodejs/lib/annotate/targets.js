'use strict';
// The functions of user code that the replay reaches, and what became of each.

const fs = require('fs');
const path = require('path');
const { fileURLToPath } = require('url');

const MOST_OBJECTS = 50;
const ATTEMPTS = 4; // the collection takes one
const LOOPING = 6;
const INITIALISER = /^<\w+_initializer>$/;
const sourceText = Function.prototype.call.bind(Function.prototype.toString);

/** One function of the source; `objects` are the function objects made of it that are alive: none where it is made anew in each call. */
class Target {
  constructor(script, { functionName, ranges: [{ startOffset, endOffset, count }] }) {
    this.script = script;
    this.name = functionName;
    this.start = startOffset;
    this.end = endOffset;
    this.calls = count;
    this.objects = [];
    this.attempts = 0;
    this.compiled = null; // the tier that V8's record tells
    this.thrownAway = 0;
    this.reason = '';
    this.verdict = null; // why it was given up
  }

  get label() {
    return `${this.name || '(anonymous)'} (${this.script.file}:${this.line})`;
  }

  get line() {
    return this.script.lineOf(this.start);
  }
}

class Script {
  constructor(root, file) {
    this.path = file;
    this.file = path.relative(root, file);
    this.lineStarts = null;
  }

  lineOf(offset) {
    if (this.lineStarts === null) this.lineStarts = lineStarts(this.path);
    let low = 0;
    let high = this.lineStarts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.lineStarts[middle] <= offset) low = middle;
      else high = middle - 1;
    }
    return low + 1;
  }
}

function lineStarts(file) {
  const starts = [0];
  let text = '';
  try {
    text = fs.readFileSync(file, 'utf8').replace(/^\uFEFF/, '');
  } catch {
    // not a file any more: everything is on line 1
  }
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return starts;
}

/** The file of a script's URL when it is user code. */
function userFile(url, root) {
  try {
    const file = url.startsWith('file:') ? fileURLToPath(url.replace(/[?#].*$/, '')) : url;
    return file.startsWith(root + path.sep) ? file : null;
  } catch {
    return null;
  }
}

class Targets {
  constructor(all, notReached) {
    this.all = all;
    this.notReached = notReached;
    this.uncalled = 0;
  }

  /** From the inspector's counts. Functions of size 0 and the scripts' own top levels are not calls. */
  static from(coverage, root) {
    const all = [];
    let notReached = 0;
    for (const { scriptId, url, functions } of coverage) {
      const file = userFile(url, root);
      if (file === null) continue;
      const script = new Script(root, file);
      for (const entry of functions) {
        const [{ startOffset, endOffset, count }] = entry.ranges;
        if (count === 0) notReached += 1;
        else if (startOffset > 0 || entry.functionName !== '') all.push(Object.assign(new Target(script, entry), { scriptId: Number(scriptId), length: endOffset - startOffset }));
      }
    }
    return new Targets(all, notReached);
  }

  /** Gives each target the live function objects made of it. */
  attach(functions, natives) {
    const byScript = new Map();
    for (const target of this.all) {
      if (!byScript.has(target.scriptId)) byScript.set(target.scriptId, []);
      byScript.get(target.scriptId).push(target);
    }
    for (const f of functions) {
      let candidates;
      try {
        candidates = byScript.get(natives.scriptId(f));
      } catch {
        continue; // a bound or native function
      }
      // What initialises the fields of a class is no function that V8 lets us compile; it is seen from V8's record alone.
      if (candidates === undefined || INITIALISER.test(Object.getOwnPropertyDescriptor(f, 'name')?.value)) continue;
      if (natives.isUncalled(f)) {
        this.uncalled += 1;
        continue;
      }
      const target = owner(candidates, natives.position(f), f);
      if (target !== undefined && target.objects.length < MOST_OBJECTS) target.objects.push(f);
    }
  }

  get alive() {
    return this.all.filter((target) => target.objects.length > 0);
  }

  /** Those with a live object that still need doing. */
  left(natives) {
    return this.alive.filter((target) => target.verdict === null && !isDone(target, natives));
  }

  /** Asks V8 for optimised code of all that is left. Returns whether it made some. */
  optimise(left, natives, driver) {
    let changed = false;
    for (const target of left) {
      if (driver.spareMs <= 0) return changed;
      if (target.attempts >= ATTEMPTS) {
        target.verdict = `V8 threw its optimised code away each time${target.reason === '' ? '' : ` (${target.reason})`}`;
        continue;
      }
      target.attempts += 1;
      const outcomes = target.objects.map((f) => natives.optimise(f));
      if (outcomes.includes(true)) changed = true;
      else target.verdict = 'V8 refuses to optimise it, for example because it is too large';
    }
    return changed;
  }

  /** Notes what V8's record says; returns whether anything of it may still change. */
  book(events) {
    for (const { name, tier } of events.compiled) for (const target of this.named(name)) target.compiled = tier;
    for (const { name, reason } of events.thrownAway) {
      for (const target of this.named(name)) {
        target.compiled = null;
        target.thrownAway += 1;
        target.reason = reason;
      }
    }
    const looping = ({ name }) => this.named(name).some((target) => target.thrownAway >= LOOPING);
    return !(events.compiled.every(looping) && events.thrownAway.every(looping));
  }

  /** After a full collection: the code of functions that nobody holds is gone. */
  collected() {
    for (const target of this.all) if (target.objects.length === 0) target.compiled = null;
  }

  named(name) {
    return this.all.filter((target) => target.name === name || target.name.endsWith(`.${name}`) || target.name.endsWith(` ${name}`));
  }
}

function isDone(target, natives) {
  return target.objects.some((f) => natives.isOptimised(f));
}

/** The target that a function object was made of, by its place and its length in the source. */
function owner(candidates, position, f) {
  const around = candidates.filter((target) => target.start <= position && position < target.end);
  const text = sourceText(f);
  if (!text.startsWith('class')) return innermost(around.filter((target) => target.length === text.length));
  // A class is printed as a whole; its constructor, where one is written, has its own place.
  return innermost(around.filter((target) => position - target.start === 'constructor'.length));
}

function innermost(targets) {
  return targets.reduce((best, target) => (best === undefined || target.length < best.length ? target : best), undefined);
}

module.exports = { Targets, LOOPING };
