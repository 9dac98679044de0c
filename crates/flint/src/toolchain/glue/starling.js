// StarlingMonkey has an event loop of its own.
export function loaded() {}

/** One call, to its answer: `answered(value)` or `failed(error)`. */
export function complete(call, answered, failed) {
  try {
    const answer = call();
    return typeof answer?.then === 'function' ? Promise.resolve(answer).then(answered).catch(failed) : answered(answer);
  } catch (error) {
    return failed(error);
  }
}
