'use strict';
// The functions of user code that the replay reaches, and their state.

const fs = require('fs');
const path = require('path');
const { fileURLToPath } = require('url');

const MOST_OBJECTS = 50;
const ATTEMPTS = 4; // the collection costs one
const LOOPING = 6;
const INITIALISER = /^<\w+_initializer>$/;
const sourceText = Function.prototype.call.bind(Function.prototype.toString);

/** One function in the source. `objects` are its living function objects; there are none if it is created in each call. */
class Target {
  constructor(script, { functionName, ranges: [{ startOffset, endOffset, count }] }) {
    this.script = script;
    this.name = functionName;
    this.start = startOffset;
    this.end = endOffset;
    this.calls = count;
    this.objects = [];
    this.attempts = 0;
    this.compiled = null; // the tier in V8's log
    this.recompiled = 0;
    this.verdict = null; // why it was given up, if so
  }

  get label() {
    return `${this.name || '(anonymous)'} (${this.script.file}:${this.line})`;
  }

  get line() {
    return this.script.lineOf(this.start);
  }
}

class Script {
  constructor(root, file, id) {
    this.id = id;
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
    // the file has gone: everything is on line 1
  }
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return starts;
}

/** The file of a script's URL if it is user code, otherwise null. */
function userFile(url, root) {
  try {
    const file = url.startsWith('file:') ? fileURLToPath(url.replace(/[?#].*$/, '')) : url;
    return file.startsWith(root + path.sep) ? file : null;
  } catch {
    return null;
  }
}

class Targets {
  constructor(all, cold) {
    this.all = all;
    this.cold = cold; // functions without a counted call
    this.notReached = cold.length;
  }

  /** Makes targets from the inspector's counts; the top level of scripts is left out. */
  static from(coverage, root) {
    const all = [];
    const cold = [];
    for (const { scriptId, url, functions } of coverage) {
      const file = userFile(url, root);
      if (file === null) continue;
      const script = new Script(root, file, Number(scriptId));
      for (const entry of functions) {
        const [{ startOffset, count }] = entry.ranges;
        if (startOffset === 0 && entry.functionName === '') continue;
        (count > 0 ? all : cold).push(new Target(script, entry));
      }
    }
    return new Targets(all, cold);
  }

  /** Assigns the living function objects to their targets. */
  attach(functions, natives) {
    const reached = byScript(this.all);
    const cold = byScript(this.cold);
    for (const f of functions) {
      let id;
      try {
        id = natives.scriptId(f);
      } catch {
        continue; // a bound or native function
      }
      if (!reached.has(id)) continue;
      const position = natives.position(f);
      const target = owner(reached.get(id), position, f);
      if (target === undefined) {
        // A class without an explicit constructor is not in V8's counts; position 0 is Node's module wrapper.
        if (position > 0 && !isClass(f) && owner(cold.get(id) || [], position, f) === undefined) this.notReached += 1;
        continue;
      }
      // V8 does not compile class field initialisers on request, so only its log tells about them.
      if (natives.isUncalled(f) || INITIALISER.test(target.name)) continue;
      if (target.objects.length < MOST_OBJECTS) target.objects.push(f);
    }
  }

  get alive() {
    return this.all.filter((target) => target.objects.length > 0);
  }

  /** The targets with a living object that are not optimised yet. */
  left(natives) {
    return this.alive.filter((target) => target.verdict === null && !isDone(target, natives));
  }

  /** Asks V8 to optimise the given targets. Returns whether it optimised any. */
  optimise(left, natives, driver) {
    let changed = false;
    for (const target of left) {
      if (driver.spareMs <= 0) return changed;
      if (target.attempts >= ATTEMPTS) {
        target.verdict = 'V8 threw its optimised code away each time';
        continue;
      }
      target.attempts += 1;
      const outcomes = target.objects.map((f) => natives.optimise(f));
      if (outcomes.includes(true)) changed = true;
      else target.verdict = 'V8 refuses to optimise it, for example because it is too large';
    }
    return changed;
  }

  /** Evaluates V8's log; returns whether its contents may still change. */
  book({ compiled, replaced }) {
    for (const { name, tier } of compiled) {
      this.promote(name);
      for (const target of this.named(name)) {
        if (target.compiled === null || (target.compiled === 'maglev' && tier === 'turbofan')) target.compiled = tier;
        else if (name !== '') target.recompiled += 1; // without a name it may be another function
      }
    }
    const isSettled = ({ name }) => this.named(name).some(isLooping);
    return !(compiled.every(isSettled) && replaced.every(isSettled));
  }

  /** V8 does not always count the calls of a function that is created in each call; if V8 compiles one, it was reached. */
  promote(name) {
    const found = this.cold.filter((target) => name !== '' && target.name === name);
    if (found.length === 0) return;
    this.all.push(...found);
    this.cold = this.cold.filter((target) => !found.includes(target));
    this.notReached -= found.length;
  }

  /** After a full collection the code of functions without a living object is gone. */
  collected() {
    for (const target of this.all) if (target.objects.length === 0) target.compiled = null;
  }

  named(name) {
    return this.all.filter((target) => target.name === name || target.name.endsWith(`.${name}`) || target.name.endsWith(` ${name}`));
  }
}

/** Whether V8 compiles a function without living objects again and again. */
function isLooping({ objects, recompiled }) {
  return objects.length === 0 && recompiled >= LOOPING;
}

function isDone(target, natives) {
  return target.objects.some((f) => natives.isOptimised(f));
}

function byScript(targets) {
  const groups = new Map();
  for (const target of targets) {
    const { id } = target.script;
    if (!groups.has(id)) groups.set(id, []);
    groups.get(id).push(target);
  }
  return groups;
}

function isClass(f) {
  return sourceText(f).startsWith('class');
}

/** The target of a function object, by its position and length in the source. */
function owner(candidates, position, f) {
  const around = candidates.filter((target) => target.start <= position && position < target.end);
  if (!isClass(f)) return innermost(around.filter((target) => target.end - target.start === sourceText(f).length));
  // `toString` of a class returns the whole class, while its constructor, if it has one, is a function of its own.
  return innermost(around.filter((target) => position - target.start === 'constructor'.length));
}

function innermost(targets) {
  return targets.reduce((best, target) => (best === undefined || target.start > best.start ? target : best), undefined);
}

module.exports = { Targets, isLooping, userFile };
