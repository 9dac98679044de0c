'use strict';
// Observes what the replay reaches, through an inspector session inside the process (no port, no thread).
//
// Uses only its profiler and runtime domains: enabling the debugger would make every `await` slower for good, by invalidating V8's promise
// hook protector.

const GROUP = 'flint';

class Observer {
  constructor() {
    const { Session } = require('inspector');
    this.session = new Session();
    this.session.connect();
  }

  /** Runs an inspector command; those used here answer before `post` returns. */
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

  /** Starts counting calls. V8 discards all optimised code for that, so it must come first. */
  startCounting() {
    this.post('Profiler.enable');
    this.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  }

  /** The scripts with the functions that were called since `startCounting`, and those that were not. */
  takeCounts() {
    const { result } = this.post('Profiler.takePreciseCoverage');
    this.post('Profiler.stopPreciseCoverage');
    this.post('Profiler.disable');
    return result;
  }

  /** The scripts with their functions, without counts. */
  takeScripts() {
    this.post('Profiler.enable');
    const { result } = this.post('Profiler.getBestEffortCoverage');
    this.post('Profiler.disable');
    return result;
  }

  /** Every living function object. Takes a full collection, which also drops unused hidden classes, so it must come before optimising. */
  liveFunctions() {
    let functions = [];
    this.exchange({ take: (found) => { functions = Array.from(found); } }, (take) => {
      const { result } = this.post('Runtime.evaluate', { expression: 'Object.getPrototypeOf(function () {})', objectGroup: GROUP });
      const { objects } = this.post('Runtime.queryObjects', { prototypeObjectId: result.objectId, objectGroup: GROUP });
      take(objects.objectId);
    });
    return functions;
  }

  /** The scopes of a function, from the innermost to that of its file: objects with copies of the variables. */
  scopes(f) {
    const scopes = [];
    this.exchange({ f, take: ({ object }) => { scopes.push(object); } }, (take, name) => {
      const { result } = this.post('Runtime.evaluate', { expression: `${name}.f`, objectGroup: GROUP });
      const { internalProperties } = this.post('Runtime.getProperties', { objectId: result.objectId, ownProperties: true });
      const list = internalProperties.find((property) => property.name === '[[Scopes]]');
      if (list === undefined) return;
      for (const { name: index, value } of this.post('Runtime.getProperties', { objectId: list.value.objectId, ownProperties: true }).result) {
        if (/^\d+$/.test(index) && !/^(Global|Script)\b/.test(value.description)) take(value.objectId);
      }
    });
    return scopes;
  }

  /**
   * Runs `act(take, name)` while `things` is available as the global variable `name`; `take(id)` passes the inspector's object with that id
   * to `things.take`.
   */
  exchange(things, act) {
    const key = `__flint_${Math.random().toString(36).slice(2)}`;
    const name = `globalThis[${JSON.stringify(key)}]`;
    Object.defineProperty(globalThis, key, { configurable: true, value: things });
    const take = (objectId) => {
      this.post('Runtime.callFunctionOn', { objectId, functionDeclaration: `function () { ${name}.take(this); }` });
    };
    try {
      act(take, name);
    } finally {
      delete globalThis[key];
      this.post('Runtime.releaseObjectGroup', { objectGroup: GROUP });
    }
  }

  close() {
    this.session.disconnect();
  }
}

module.exports = { Observer };
