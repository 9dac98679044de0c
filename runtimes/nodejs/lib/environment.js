'use strict';
// The environment variables of the OpenWhisk contract.

/** Sets variables. */
function setAll(variables) {
  for (const [name, value] of Object.entries(variables || {})) {
    process.env[name] = typeof value === 'string' ? value : value === null ? '' : JSON.stringify(value);
  }
}

/** Sets the variables that INIT brings, before user code is loaded. */
function setInitial(init) {
  setAll(init.env);
  if (init.namespace !== undefined) process.env.__OW_NAMESPACE = init.namespace;
  if (init.name !== undefined) process.env.__OW_ACTION_NAME = `/${init.namespace}/${init.name}`;
  if (init.version !== undefined) process.env.__OW_ACTION_VERSION = init.version;
}

/** Variables that depend on the namespace and so rarely change: written to the process's environment when they do. */
const SELDOM = [
  ['apiKey', '__OW_API_KEY'],
  ['apiHost', '__OW_API_HOST'],
];

/** Variables that differ in every call: layered over the process's environment. */
const OF_A_CALL = new Map([
  ['__OW_ACTIVATION_ID', 'activation'],
  ['__OW_DEADLINE', 'deadline'],
  ['__OW_TRANSACTION_ID', 'transaction'],
]);

/**
 * The variables of the current call. Those that differ in every call never reach the C library, because glibc before 2.41 keeps every value
 * that it was ever given, some 300 bytes per call, and searches all of them for the next one. JavaScript and the processes that it starts
 * see no difference.
 */
class CallEnvironment {
  constructor() {
    this.head = {};
    /** The variables that user code has set or, as undefined, deleted since the call began. */
    this.changed = null;
    this.current = SELDOM.map(() => undefined);
    /** The values for calls that bring none of their own. */
    this.initial = this.current.slice();
    process.env = new Proxy(process.env, this.layer());
  }

  /** Makes the variables that INIT or RESTORE has set the initial values of every call. */
  settle() {
    this.initial = SELDOM.map(([, name]) => process.env[name]);
    this.current = this.initial.slice();
  }

  apply(head) {
    this.head = head;
    this.changed = null;
    for (let i = 0; i < SELDOM.length; i++) {
      const value = head[SELDOM[i][0]] ?? this.initial[i];
      if (value === this.current[i]) continue;
      if (value === undefined) delete process.env[SELDOM[i][1]];
      else process.env[SELDOM[i][1]] = String(value);
      this.current[i] = value;
    }
  }

  /** Called when a variable of the process's environment is written or deleted, so that the next call writes those of `SELDOM` again. */
  touch(name) {
    for (let i = 0; i < SELDOM.length; i++) if (SELDOM[i][1] === name) this.current[i] = null;
  }

  /** The value of a variable in `OF_A_CALL`; undefined if it has none. */
  value(name) {
    if (this.changed !== null && this.changed.has(name)) return this.changed.get(name);
    const value = this.head[OF_A_CALL.get(name)];
    return value === undefined ? undefined : String(value);
  }

  change(name, value) {
    if (this.changed === null) this.changed = new Map();
    this.changed.set(name, value);
    return true;
  }

  /** The handler of the proxy for `process.env`; `env` is the process's own environment. */
  layer() {
    return {
      get: (env, name) => (OF_A_CALL.has(name) ? this.value(name) : env[name]),
      has: (env, name) => (OF_A_CALL.has(name) ? this.value(name) !== undefined : name in env),
      set: (env, name, value) => {
        if (OF_A_CALL.has(name)) return this.change(name, String(value));
        env[name] = value;
        this.touch(name);
        return true;
      },
      deleteProperty: (env, name) => {
        if (OF_A_CALL.has(name)) return this.change(name, undefined);
        this.touch(name);
        return delete env[name];
      },
      defineProperty: (env, name, descriptor) => {
        Object.defineProperty(env, name, descriptor); // throws where Node.js would
        this.touch(name);
        if (!OF_A_CALL.has(name)) return true;
        delete env[name];
        return this.change(name, String(descriptor.value));
      },
      ownKeys: (env) => {
        const names = [...OF_A_CALL.keys()].filter((name) => this.value(name) !== undefined);
        return Reflect.ownKeys(env).concat(names);
      },
      getOwnPropertyDescriptor: (env, name) => {
        if (!OF_A_CALL.has(name)) return Object.getOwnPropertyDescriptor(env, name);
        const value = this.value(name);
        return value === undefined ? undefined : { value, writable: true, enumerable: true, configurable: true };
      },
    };
  }
}

module.exports = { setAll, setInitial, CallEnvironment };
