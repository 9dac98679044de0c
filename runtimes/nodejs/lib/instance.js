'use strict';
// The function instance: dispatches the link's frames to loading, calls and snapshots.

const { AsyncResource } = require('async_hooks');
const { Kind, ProtocolError, parseObject, splitHead, uint32 } = require('./frame');
const { Call } = require('./call');
const { CallEnvironment, setInitial } = require('./environment');
const { Context } = require('./context');
const flint = require('./flint');
const { Link } = require('./link');
const { load, userStack } = require('./load');
const { BodyError, parameters } = require('./request');
const { ResultError, isBinary, isSpent, sendBinary, sendJson, toJson } = require('./response');
const snapshot = require('./snapshot');
const stdio = require('./stdio');

const { stringify } = JSON;
const EXIT_FAILED = 1;
const EXIT_PROTOCOL = 3;
const MAX_MESSAGE = 64 * 1024;
const SCOPE = { requireManualDestroy: true }; // nobody asks when a call's scope is collected
const NOBODY_ACKNOWLEDGES = -(2 ** 30); // room for a gigabyte, and still a small integer for V8

/**
 * A function instance with all its state. It waits (HELLO sent), loads (INIT received), is ready, and serves calls, possibly several
 * concurrently on the event loop. What zygotes and clones do in addition is in `snapshot.js`.
 */
class Instance {
  /** `prepared`: the result of `zygote.prepare`, in a process that is to be forked. */
  constructor(fd, prepared = {}) {
    this.state = 'waiting';
    this.init = null;
    this.entry = null;
    this.file = null;
    this.calls = new Map();
    this.environment = new CallEnvironment();
    /** Attributes output to calls; set if INIT allows concurrent ones. */
    this.sideBySide = null;
    this.hello = { protocol: 1, runtime: 'nodejs', version: process.versions.node };
    this.zygote = prepared.zygote || null;
    if (prepared.zygote || prepared.reason) this.hello.snapshot = prepared.reason || true;
    /** In a clone: true while no user code has run, so that nothing needs the event loop. */
    this.passive = false;
    /** In a zygote that rehearses a clone's first call: replaces `serveFromEventLoop`. */
    this.rehearsing = null;
    /** In a zygote that replays a warm-up request: called when the request has ended. */
    this.onReplayed = null;
    /** In a clone that serves a single call: `endAtOnce(status)` ends the process. */
    this.endAtOnce = null;
    /** In a clone whose hooks are running: the frames that wait for them. */
    this.held = null;
    this.link = new Link(fd, {
      onFrame: this.onFrame.bind(this),
      onClosed: () => process.exit(0),
      onBroken: (error) => this.abandon(error),
    });
  }

  start() {
    process.on('uncaughtException', (error) => this.onUncaught(error));
    if (this.zygote === null) this.open();
    else snapshot.startZygote(this);
  }

  open(fd) {
    this.link.open(fd);
    this.link.sendJson(Kind.HELLO, 0, this.hello);
  }

  onFrame(kind, fin, id, buffer, start, end, owned) {
    if (this.held !== null) return snapshot.hold(this, kind, fin, id, buffer.subarray(start, end));
    switch (kind) {
      case Kind.INVOKE: return this.onInvoke(fin, id, buffer, start, end, owned);
      case Kind.BODY: return this.onBody(fin, id, buffer, start, end, owned);
      case Kind.END: return this.onEnd(id);
      case Kind.ACK: return this.onAck(id, buffer, start, end);
      case Kind.ERROR: return this.onGone(id);
      case Kind.INIT: return this.onInit(parseObject(buffer, start, end));
      case Kind.FREEZE: return snapshot.onFreeze(this, parseObject(buffer, start, end));
      case Kind.RESTORE: return snapshot.onRestore(this, parseObject(buffer, start, end));
      default: throw new ProtocolError('order', `a frame of kind ${kind} is not for this shim`);
    }
  }

  // --- loading

  onInit(init) {
    if (this.state !== 'waiting') throw new ProtocolError('order', 'Cannot initialize the action more than once.');
    this.state = 'loading';
    this.init = init;
    setInitial(init);
    this.environment.settle();
    if (init.concurrency > 1) {
      process.on('exit', () => this.finishLines()); // before what the link has gathered is sent
      this.sideBySide = new (require('./side_by_side').SideBySide)(this.link);
    }
    try {
      const loaded = load(init.code, init.main || 'main');
      if (typeof loaded.then === 'function') loaded.then((late) => this.onLoaded(late)).catch((error) => this.onLoadFailed(error));
      else this.onLoaded(loaded);
    } catch (error) {
      this.onLoadFailed(error);
    }
  }

  onLoaded({ entry, file }) {
    this.entry = entry;
    this.file = file;
    // Without clones, a function's connections and the like are opened here.
    const late = this.zygote === null ? flint.runAfter() : this.zygote.loaded();
    if (late === undefined) this.onReady();
    else late.then(() => this.onReady(), (error) => this.onLoadFailed(error));
  }

  onReady() {
    this.state = 'ready';
    this.link.sendJson(Kind.READY, 0, {});
  }

  onLoadFailed(error) {
    stdio.printError(error);
    this.sendError(0, 'developer', `Initialization has failed due to: ${userStack(error)}`);
    process.exit(EXIT_FAILED);
  }

  // --- receiving a call

  onInvoke(fin, id, buffer, start, end, owned) {
    if (this.state !== 'ready') throw new ProtocolError('order', 'INVOKE before READY');
    if (id === 0 || this.calls.has(id)) throw new ProtocolError('order', `INVOKE for call ${id}, which is not a new call`);
    const { head, bodyStart } = splitHead(buffer, start, end);
    const call = new Call(id, head === null ? {} : head);
    if (this.onReplayed !== null) call.unacknowledged = NOBODY_ACKNOWLEDGES;
    this.passive = false;
    this.calls.set(id, call);
    if (fin) {
      this.run(call, buffer, bodyStart, end, owned);
    } else {
      const first = buffer.subarray(bodyStart, end);
      call.receive(this.link, owned ? first : Buffer.from(first));
    }
  }

  onBody(fin, id, buffer, start, end, owned) {
    const call = this.calls.get(id);
    if (call === undefined || call.running) throw new ProtocolError('order', `BODY for call ${id}, which has no open body`);
    const piece = buffer.subarray(start, end);
    call.receive(this.link, owned ? piece : Buffer.from(piece));
    if (fin) this.runAssembled(call);
  }

  onEnd(id) {
    const call = this.calls.get(id);
    if (call === undefined || call.running) throw new ProtocolError('order', `END for call ${id}, which has no open body`);
    this.runAssembled(call);
  }

  onAck(id, buffer, start, end) {
    if (end - start !== 4) throw new ProtocolError('order', 'an ACK has four bytes');
    const call = this.calls.get(id);
    if (call !== undefined) call.onAck(uint32(buffer, start)); // the last ACK of an ended call may still arrive
  }

  onGone(id) {
    const call = this.calls.get(id);
    if (call === undefined) return;
    if (call.running) call.cancel();
    else this.calls.delete(id);
  }

  // --- running it

  runAssembled(call) {
    const body = call.takeBody();
    this.run(call, body, 0, body.length, true);
  }

  run(call, buffer, start, end, owned) {
    call.running = true;
    if (call.head.warmup === true && this.zygote !== null) this.zygote.keep(call.head, buffer.subarray(start, end));
    // What a handler enters (AsyncLocalStorage.enterWith) stays in its call.
    const scope = new AsyncResource('FLINT_CALL', SCOPE);
    if (this.sideBySide === null) scope.runInAsyncScope(this.handle, this, call, buffer, start, end, owned);
    else scope.runInAsyncScope(() => this.sideBySide.run(call, () => this.handle(call, buffer, start, end, owned)));
  }

  handle(call, buffer, start, end, owned) {
    let params;
    try {
      params = parameters(call.head, buffer, start, end, owned);
    } catch (error) {
      if (!(error instanceof BodyError)) throw error;
      this.fail(call, error.message);
      return;
    }
    this.environment.apply(call.head);
    const { entry } = this; // not called as a method, whose `this` would be the instance
    let result;
    let promise = null;
    try {
      result = entry(params, new Context(this.init, call.head));
      // What it returned may throw when it is looked at, here and in `answer`.
      if (result !== null && typeof result === 'object' && typeof result.then === 'function') promise = Promise.resolve(result);
    } catch (error) {
      this.failWith(call, error);
      return;
    }
    if (promise === null) this.answer(call, result);
    else promise.then((value) => this.answer(call, value), (reason) => this.reject(call, reason));
  }

  /** A rejected promise is an application error: a result with the key `error`. */
  reject(call, reason) {
    let error = reason;
    if (reason instanceof Error) {
      stdio.printError(reason);
      error = reason.message;
    } else if (!reason) {
      error = {};
    }
    let text;
    try {
      text = stringify({ error });
    } catch {
      text = stringify({ error: describe(reason) });
    }
    this.afterFlush(call, () => sendJson(this.link, call, text));
  }

  answer(call, result) {
    let text = null;
    try {
      if (!isBinary(result)) text = toJson(result);
      else if (isSpent(result)) throw new ResultError('The action returned a body that it has read already, or that something is reading: return a clone() of the Response.');
    } catch (error) {
      this.failWith(call, error);
      return;
    }
    if (text !== null) this.afterFlush(call, () => sendJson(this.link, call, text));
    else this.afterFlush(call, () => sendBinary(this.link, call, result));
  }

  /** Calls `send` once the call's output is in the pipes. If it returns a promise, that is of a body, which is then ended. */
  afterFlush(call, send) {
    if (!stdio.isFlushed()) {
      stdio.flush().then(() => this.finish(call, send));
    } else {
      this.finish(call, send);
    }
  }

  finish(call, send) {
    const { sideBySide } = this;
    if (sideBySide !== null) sideBySide.finish(call);
    let streaming;
    try {
      streaming = send();
    } catch (error) { // thrown by the user's Response
      this.failWith(call, error);
      return;
    }
    if (streaming === undefined) {
      this.end(call, true);
      return;
    }
    call.whileWanted(streaming).then(() => stdio.flush()).then(() => {
      if (sideBySide !== null) sideBySide.finish(call);
      this.link.send(Kind.END, false, call.id);
      this.end(call, true);
    }, (error) => this.failWith(call, error));
  }

  /** A call that ends by an error of the function's, or by a result that cannot be sent. */
  failWith(call, error) {
    if (error instanceof ResultError) {
      this.fail(call, error.message);
      return;
    }
    stdio.printError(error);
    this.fail(call, `An error has occurred: ${describe(error)}`);
  }

  fail(call, message) {
    if (stdio.isFlushed()) this.sendFailure(call, message);
    else stdio.flush().then(() => this.sendFailure(call, message));
  }

  sendFailure(call, message) {
    if (this.sideBySide !== null) this.sideBySide.finish(call);
    this.sendError(call.id, 'developer', message);
    this.end(call, false);
  }

  end(call, ok) {
    this.calls.delete(call.id);
    if (this.onReplayed !== null) this.onReplayed({ ok });
    if (this.endAtOnce !== null && this.link.isWritten()) this.endAtOnce(0);
  }

  // --- ending

  sendError(id, kind, message) {
    this.link.sendJson(Kind.ERROR, id, { kind, message: textOf(message) });
  }

  /** Handles an error that belongs to no call's promise, after which the process is not trustworthy. */
  onUncaught(error) {
    if (process.listenerCount('uncaughtException') > 1) return; // user code handles it
    stdio.printError(error);
    const message = `An error has occurred outside of the handler: ${describe(error)}`;
    if (this.onReplayed !== null) { // in the middle of a freeze: this is its answer
      this.link.fd = this.link.home;
      this.calls.clear();
    }
    if (this.calls.size === 0) this.sendError(0, 'developer', message);
    this.finishLines();
    for (const id of this.calls.keys()) this.sendError(id, 'developer', message);
    process.exit(EXIT_FAILED);
  }

  /** If calls are concurrent: sends what they have printed so far, since no more will come. */
  finishLines() {
    if (this.sideBySide !== null) for (const call of this.calls.values()) if (call.running) this.sideBySide.finish(call);
  }

  abandon(error) {
    stdio.print(`flint: protocol error: ${error.message}`);
    this.sendError(0, 'protocol', error.message);
    process.exit(EXIT_PROTOCOL);
  }
}

/** A message cut to the maximum length. A lone surrogate, which is not valid Unicode, becomes U+FFFD. */
function textOf(message) {
  return Buffer.from(message.slice(0, MAX_MESSAGE)).toString();
}

function describe(error) {
  try {
    return String(error);
  } catch {
    return 'an error that cannot be printed';
  }
}

module.exports = { Instance };
