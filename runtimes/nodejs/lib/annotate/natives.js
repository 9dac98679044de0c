'use strict';
// V8's own functions (`%Name`) for looking at and choosing a function's compiled form.

const v8 = require('v8');

const SYNTAX = '--allow-natives-syntax';
// What asks for optimised code at once, without waiting for the next call; the name depends on V8's version.
const COMPILE = ['%OptimizeTurbofanEager(f)', '%CompileOptimized(f)', '%CompileTurbofan_Synchronous(f)'];
// V8 finds what it has compiled before by its text, and the natives with it: this one nobody else writes.
const OURS = ` // ${process.hrtime.bigint()}`;

/**
 * Makes the natives and learns what the bits of a status mean, by bringing functions of its own into each state:
 * the numbers differ between V8's versions. Throws when this V8 does not behave as understood here.
 *
 * The syntax is on only while this function runs, so that user code cannot use it. Each native is called once
 * in that time, because V8 compiles a function at its first call; the caller must have switched off
 * the flushing of bytecode, or V8 would parse them again later.
 */
function openNatives() {
  return withSyntax(learn);
}

/** Only those that compile a function without calling it, and tell which one to. `isFast`: an object is none with very many named properties. */
function openCompiler() {
  return withSyntax(() => {
    const { prepare, scriptId } = ours();
    const natives = { prepare, scriptId, isFast: required('return %HasFastProperties(f)') };
    const subject = sample();
    for (const native of Object.values(natives)) tolerant(() => native(subject));
    return natives;
  });
}

function withSyntax(act) {
  const wasOn = make('f', 'return %GetOptimizationStatus(f)') !== null;
  if (!wasOn) v8.setFlagsFromString(SYNTAX);
  try {
    return act();
  } finally {
    if (!wasOn) v8.setFlagsFromString('--no-allow-natives-syntax');
  }
}

function ours() {
  return {
    prepare: required('%PrepareFunctionForOptimization(f)'),
    scriptId: required('return %FunctionGetScriptId(f)'),
    position: required('return %FunctionGetScriptSourcePosition(f)'),
  };
}

/** A function that is compiled when it is called. */
function sample() {
  return new Function('return function (a) { return a + 1; }')();
}

function make(parameter, body) {
  try {
    return new Function(parameter, body + OURS);
  } catch {
    return null; // no syntax for natives, or no native of that name
  }
}

/** Runs `act` with V8 told to ignore what it cannot do; otherwise it ends the process. */
function tolerant(act) {
  v8.setFlagsFromString('--fuzzing');
  try {
    return act();
  } finally {
    v8.setFlagsFromString('--no-fuzzing');
  }
}

function required(body) {
  const native = make('f', body);
  if (native === null) throw new Error(`this V8 (${process.versions.v8}) has no ${body.match(/%\w+/)[0]}`);
  return native;
}

function learn() {
  const status = required('return %GetOptimizationStatus(f)');
  const mark = required('%OptimizeFunctionOnNextCall(f)');
  const { prepare, scriptId, position } = ours();
  const bits = {};

  const subject = sample();
  bits.lazy = status(subject);
  subject(1);
  subject(2);
  const plain = status(subject);
  bits.lazy &= ~plain;
  tolerant(() => prepare(subject));
  subject(3);
  tolerant(() => mark(subject));
  bits.marked = status(subject) & ~plain;
  subject(4);
  bits.top = status(subject) & ~plain;
  if (bits.top === 0 || bits.marked === 0) throw new Error(`this V8 (${process.versions.v8}) does not optimise on demand`);
  scriptId(subject);
  position(subject);

  return new Natives({
    status, prepare, mark, scriptId, position, bits,
    compile: findCompile({ status, prepare, mark, top: bits.top }),
    finish: findFinish(),
    ...learnOthers({ status, prepare, plain, top: bits.top }),
  });
}

/** The native that compiles a marked function without calling it, or null. */
function findCompile({ status, prepare, mark, top }) {
  for (const body of COMPILE) {
    const compile = make('f', body);
    if (compile === null) continue;
    const subject = sample();
    subject(1);
    tolerant(() => prepare(subject));
    subject(2);
    tolerant(() => mark(subject));
    compile(subject);
    if ((status(subject) & top) === top) return compile;
  }
  return null;
}

/** Waits for background compilation and installs its results; nothing to do where there is none. */
function findFinish() {
  const finish = make('f', '%WaitForBackgroundOptimization(); %FinalizeOptimization()') || make('f', '%FinalizeOptimization()');
  if (finish === null) return () => {};
  finish();
  return finish;
}

/** The bits of the middle tiers, which are only good to know. */
function learnOthers({ status, prepare, plain, top }) {
  const after = (body) => {
    const native = make('f', body);
    if (native === null) return 0;
    const subject = sample();
    subject(1);
    tolerant(() => prepare(subject));
    subject(2);
    tolerant(() => native(subject));
    subject(3);
    return status(subject) & ~plain;
  };
  const baseline = after('%CompileBaseline(f)');
  const isMaglevOn = make('f', 'return %IsMaglevEnabled()');
  const maglev = isMaglevOn !== null && isMaglevOn() ? after('%OptimizeMaglevOnNextCall(f)') : 0; // it prints where Maglev is off
  return { baseline, maglev: (maglev & ~top) === 0 ? 0 : maglev };
}

class Natives {
  constructor(parts) {
    Object.assign(this, parts);
  }

  has(f, mask) {
    return mask !== 0 && (this.status(f) & mask) === mask;
  }

  isOptimised(f) {
    return this.has(f, this.bits.top);
  }

  /** Whether V8 has no code for this object yet: it was never called. */
  isUncalled(f) {
    return this.has(f, this.bits.lazy);
  }

  tier(f) {
    const status = this.status(f);
    const holds = (mask) => mask !== 0 && (status & mask) === mask;
    if (holds(this.bits.top)) return 'turbofan';
    if (holds(this.maglev)) return 'maglev';
    if (holds(this.baseline)) return 'sparkplug';
    return 'interpreted';
  }

  /**
   * Gives the function optimised code: at once where V8 lets us, otherwise at its next call.
   * False when V8 refuses, because the function is too large, or because V8 keeps it from being compiled by hand.
   */
  optimise(f) {
    if (this.isOptimised(f)) return true;
    tolerant(() => {
      this.prepare(f);
      this.mark(f);
    });
    const isMarked = this.has(f, this.bits.marked);
    if (!isMarked || this.compile === null) return isMarked || this.isOptimised(f);
    this.compile(f);
    return this.isOptimised(f);
  }
}

module.exports = { openCompiler, openNatives, tolerant };
