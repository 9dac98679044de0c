'use strict';

/** What a handler may know about its call: the second argument of `main(params, context)`. */
class Context {
  constructor(init, head) {
    this.activationId = head.activation;
    this.functionName = init.name;
    this.functionVersion = init.version;
    this.namespace = init.namespace;
    this.deadlineMs = head.deadline;
    this.transactionId = head.transaction;
    this.method = head.method;
    this.path = head.path;
    this.query = head.query;
    this.headers = head.headers === undefined ? undefined : headersToObject(head.headers);
  }

  getRemainingTimeInMillis() {
    return Math.max(0, this.deadlineMs - Date.now());
  }
}

/** Header pairs as an object. Values of a repeated name are joined with commas, as HTTP allows. */
function headersToObject(pairs) {
  const object = {};
  for (const [name, value] of pairs) {
    object[name] = Object.hasOwn(object, name) ? `${object[name]}, ${value}` : value;
  }
  return object;
}

module.exports = { Context, headersToObject };
