'use strict';
// What the replay reaches, seen through the inspector inside the process (no port, no thread).
//
// Only its profiler and runtime domains: switching its debugger on makes every `await` slower for good (V8's promise hook protector).

const GROUP = 'flint';

class Observer {
  constructor() {
    const { Session } = require('inspector');
    this.session = new Session();
    this.session.connect();
  }

  /** An inspector command; those used here answer before `post` returns. */
  post(method, parameters) {
    let answer;
    let failure = null;
    this.session.post(method, parameters, (error, result) => {
      if (error) failure = new Error(`${method}: ${error.message}`);
      answer = result;
    });
    if (failure !== null) throw failure;
    if (answer === undefined) throw new Error(`${method}: no answer`);
    return answer;
  }

  /** Starts counting calls. V8 drops all optimised code for that, so it comes first. */
  startCounting() {
    this.post('Profiler.enable');
    this.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  }

  /** Scripts with the functions that were called since `startCounting`, and those that were not. */
  takeCounts() {
    const { result } = this.post('Profiler.takePreciseCoverage');
    this.post('Profiler.stopPreciseCoverage');
    this.post('Profiler.disable');
    return result;
  }

  /** Scripts with their functions, without having counted. */
  takeScripts() {
    this.post('Profiler.enable');
    const { result } = this.post('Profiler.getBestEffortCoverage');
    this.post('Profiler.disable');
    return result;
  }

  /** Every function object alive. It costs a full collection that also drops unused hidden classes: before optimising. */
  liveFunctions() {
    let functions = [];
    const key = `__flint_${Math.random().toString(36).slice(2)}`;
    Object.defineProperty(globalThis, key, { configurable: true, value: (found) => { functions = Array.from(found); } });
    try {
      const { result } = this.post('Runtime.evaluate', { expression: 'Object.getPrototypeOf(function () {})', objectGroup: GROUP });
      const { objects } = this.post('Runtime.queryObjects', { prototypeObjectId: result.objectId, objectGroup: GROUP });
      this.post('Runtime.callFunctionOn', {
        objectId: objects.objectId,
        functionDeclaration: `function () { globalThis[${JSON.stringify(key)}](this); }`,
      });
    } finally {
      delete globalThis[key];
      this.post('Runtime.releaseObjectGroup', { objectGroup: GROUP });
    }
    return functions;
  }

  close() {
    this.session.disconnect();
  }
}

module.exports = { Observer };
