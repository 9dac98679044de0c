'use strict';
// V8's native functions (`%Name`) that read and change a function's compiled form.

const v8 = require('v8');

const SYNTAX = '--allow-natives-syntax';
// Natives that optimise a function at once rather than at its next call; the name depends on V8's version.
const COMPILE = ['%OptimizeTurbofanEager(f)', '%CompileOptimized(f)', '%CompileTurbofan_Synchronous(f)'];
// V8 caches compiled code by its source text. This unique comment keeps user code from matching the natives' text.
const OURS = ` // ${process.hrtime.bigint()}`;

/**
 * Makes the natives and learns the meaning of the status bits, which differ between V8's versions, by bringing functions of its own into
 * each state. Throws if this V8 behaves differently than expected here.
 *
 * The syntax is enabled only while this function runs, so that user code cannot use it. Each native is called once in that time, because V8
 * compiles a function at its first call. The caller must have disabled bytecode flushing; otherwise V8 would have to parse the natives
 * again later.
 */
function openNatives() {
  return withSyntax(learn);
}

/**
 * Only the natives that compile a function without calling it and return its script. `isFast` is false for objects with very many named
 * properties.
 */
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

/** A function that V8 compiles at its first call. */
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

/** Runs `act` while V8 ignores requests that it cannot fulfil, for which it would otherwise abort the process. */
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

/** The native that optimises a marked function without calling it, or null. */
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

/** Returns a function that waits for background compilation and installs the results; it does nothing where there is none. */
function findFinish() {
  const finish = make('f', '%WaitForBackgroundOptimization(); %FinalizeOptimization()') || make('f', '%FinalizeOptimization()');
  if (finish === null) return () => {};
  finish();
  return finish;
}

/** Learns the bits of the middle tiers, which only serve the report. */
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

  /** Whether V8 has no code for this function object, because it was never called. */
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
   * Optimises the function: at once if V8 has a native for that, otherwise at its next call. False if V8 refuses, because the function is
   * too large or because V8 does not allow it to be optimised explicitly.
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
