// For handlers whose code does not wait: QuickJS as it is. An unused event loop would cost each call some
// microseconds.
export function loaded() {}

/** One call, to its answer: `answered(value)` or `failed(error)`. */
export function complete(call, answered, failed) {
  try {
    const answer = call();
    if (typeof answer?.then !== 'function') return answered(answer);
    throw new Error('the handler returned a promise, and was built without an event loop because its code names nothing that makes one: the word Promise in it, in a comment too, and it has one after the next deploy');
  } catch (error) {
    return failed(error);
  }
}
