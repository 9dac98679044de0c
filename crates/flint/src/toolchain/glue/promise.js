// A Promise whose jobs are run by its creator: once the handler is loaded, nothing runs the engine's own.
// Implemented by the ECMAScript specification, with its names.
const PENDING = 0;
const FULFILLED = 1;
const REJECTED = 2;

const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';
const none = () => {};

/**
 * `enqueue(job)` has a job run when the code that runs now has ended. `unhandled(promise, reason)` hears of a rejection that nobody
 * handles, `handled(promise)` when somebody does later. `foreign(value)` is the error for a promise that never settles, if `value` is one.
 */
export function definePromise({ enqueue, unhandled = none, handled = none, foreign = none }) {
  const inside = () => {}; // in place of an executor: a promise that only this code settles
  let isOne;
  let settledBy;

  class Promise {
    #state = PENDING;
    #value;
    #reactions = [];
    #handled = false;

    constructor(executor) {
      if (executor === inside) return;
      if (typeof executor !== 'function') throw new TypeError(`a Promise is made with a function, not with ${typeof executor}`);
      const { resolve, reject } = this.#functions();
      try {
        executor(resolve, reject);
      } catch (error) {
        reject(error);
      }
    }

    then(onFulfilled, onRejected) {
      if (!isOne(this)) throw new TypeError('then was called on what is no Promise');
      const made = species(this);
      const reaction = made === Promise ? { promise: new Promise(inside) } : capability(made);
      reaction.onFulfilled = typeof onFulfilled === 'function' ? onFulfilled : undefined;
      reaction.onRejected = typeof onRejected === 'function' ? onRejected : undefined;
      if (this.#state === PENDING) this.#reactions.push(reaction);
      else this.#react(reaction);
      if (!this.#handled) {
        this.#handled = true;
        if (this.#state === REJECTED) handled(this);
      }
      return reaction.promise;
    }

    catch(onRejected) {
      return this.then(undefined, onRejected);
    }

    finally(onFinally) {
      if (!isObject(this)) throw new TypeError('finally was called on what is no Promise');
      const made = species(this);
      if (typeof onFinally !== 'function') return this.then(onFinally, onFinally);
      const after = (next) => resolved(made, onFinally()).then(next);
      return this.then(
        (value) => after(() => value),
        (reason) => after(() => { throw reason; }),
      );
    }

    static resolve(value) {
      return resolved(this, value);
    }

    static reject(reason) {
      const { promise, reject } = capability(this);
      reject(reason);
      return promise;
    }

    static withResolvers() {
      const { promise, resolve, reject } = capability(this);
      return { promise, resolve, reject };
    }

    static try(callback, ...values) {
      const { promise, resolve, reject } = capability(this);
      try {
        resolve(callback(...values));
      } catch (error) {
        reject(error);
      }
      return promise;
    }

    static all(promises) {
      return gathered(this, promises, (slot, { reject }) => [slot((value) => value), reject]);
    }

    static allSettled(promises) {
      return gathered(this, promises, (slot) => slot(
        (value) => ({ status: 'fulfilled', value }),
        (reason) => ({ status: 'rejected', reason }),
      ));
    }

    static any(promises) {
      const failed = (errors, { reject }) => reject(new AggregateError(errors, 'all promises were rejected'));
      return gathered(this, promises, (slot, { resolve }) => [resolve, slot((reason) => reason)], failed);
    }

    static race(promises) {
      return walked(this, promises, (promise, { resolve, reject }) => promise.then(resolve, reject));
    }

    static get [Symbol.species]() {
      return this;
    }

    /** The pair of functions that settles this promise, once. */
    #functions() {
      let done = false;
      const once = (settle) => (value) => {
        if (done) return;
        done = true;
        settle(value);
      };
      return { resolve: once((value) => this.#resolve(value)), reject: once((reason) => this.#settle(REJECTED, reason)) };
    }

    #resolve(value) {
      if (!isObject(value)) return this.#settle(FULFILLED, value);
      if (value === this) return this.#settle(REJECTED, new TypeError('a promise cannot be resolved with itself'));
      const never = foreign(value);
      if (never) return this.#settle(REJECTED, never);
      let then;
      try {
        then = value.then;
      } catch (error) {
        return this.#settle(REJECTED, error);
      }
      if (typeof then !== 'function') return this.#settle(FULFILLED, value);
      enqueue(() => {
        const { resolve, reject } = this.#functions();
        try {
          then.call(value, resolve, reject);
        } catch (error) {
          reject(error);
        }
      });
    }

    #settle(state, value) {
      const reactions = this.#reactions;
      this.#state = state;
      this.#value = value;
      this.#reactions = undefined;
      if (state === REJECTED && !this.#handled) unhandled(this, value);
      for (const reaction of reactions) this.#react(reaction);
    }

    #react(reaction) {
      enqueue(() => {
        const handler = this.#state === FULFILLED ? reaction.onFulfilled : reaction.onRejected;
        let [state, value] = [this.#state, this.#value];
        if (handler) {
          try {
            value = handler(value);
            state = FULFILLED;
          } catch (error) {
            value = error;
            state = REJECTED;
          }
        }
        const { promise, resolve, reject } = reaction;
        if (state === FULFILLED) resolve ? resolve(value) : promise.#resolve(value);
        else reject ? reject(value) : promise.#settle(REJECTED, value);
      });
    }

    static {
      isOne = (value) => isObject(value) && #state in value;
      settledBy = (value) => {
        const promise = new Promise(inside);
        promise.#resolve(value);
        return promise;
      };
    }
  }
  Object.defineProperty(Promise.prototype, Symbol.toStringTag, { value: 'Promise', configurable: true });

  /** PromiseResolve. */
  function resolved(made, value) {
    if (!isObject(made)) throw new TypeError('a static method of Promise was called on what is no constructor');
    if (isOne(value) && value.constructor === made) return value;
    if (made === Promise) return settledBy(value);
    const { promise, resolve } = capability(made);
    resolve(value);
    return promise;
  }

  /** NewPromiseCapability: a promise of the given constructor, and what settles it. */
  function capability(made) {
    if (typeof made !== 'function') throw new TypeError('a static method of Promise was called on what is no constructor');
    const pair = {};
    const promise = new made((resolve, reject) => {
      if (pair.resolve !== undefined || pair.reject !== undefined) throw new TypeError('the executor was called twice');
      Object.assign(pair, { resolve, reject });
    });
    const { resolve, reject } = pair;
    if (typeof resolve !== 'function' || typeof reject !== 'function') {
      throw new TypeError('the constructor gave its executor no functions');
    }
    return { promise, resolve, reject };
  }

  /** SpeciesConstructor. */
  function species(promise) {
    const made = promise.constructor;
    if (made === undefined || made === Promise) return Promise[Symbol.species] ?? Promise;
    if (!isObject(made)) throw new TypeError('the constructor of a promise is no object');
    return made[Symbol.species] ?? Promise;
  }

  /** Has `each(promise, capability)` see every one as a promise; `last` when there are no more. */
  function walked(made, promises, each, last = none) {
    const whole = capability(made);
    try {
      const { resolve } = made;
      if (typeof resolve !== 'function') throw new TypeError('the constructor has no function resolve');
      for (const one of promises) each(resolve.call(made, one), whole);
      last(whole);
    } catch (error) {
      whole.reject(error);
    }
    return whole.promise;
  }

  /**
   * Collects a value from each promise, in their order. `pair(slot, capability)` gives the functions for one of them; `slot(f, …)` makes
   * functions of which the first that is called fills its place, with `f` of what it is called with. `complete` gets the values when all are there.
   */
  function gathered(made, promises, pair, complete = (values, { resolve }) => resolve(values)) {
    const values = [];
    let left = 1;
    const filled = (whole) => {
      if (--left === 0) complete(values, whole);
    };
    const each = (promise, whole) => {
      const at = values.push(undefined) - 1;
      let done = false;
      const slot = (...shapes) => shapes.map((shape) => (value) => {
        if (done) return;
        done = true;
        values[at] = shape(value);
        filled(whole);
      });
      left += 1;
      promise.then(...pair(slot, whole).flat());
    };
    return walked(made, promises, each, filled);
  }

  return Promise;
}
