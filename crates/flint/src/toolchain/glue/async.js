// Replacements, with the global Promise, for the engine's own functions that return promises.

/** Runs a generator as `async` runs a function: what it yields is awaited. */
const awaiting = (generator) => new Promise((resolve, reject) => {
  const step = (how, value) => {
    try {
      const { done, value: next } = generator[how](value);
      if (done) resolve(next);
      else Promise.resolve(next).then((value) => step('next', value), (error) => step('throw', error));
    } catch (error) {
      reject(error);
    }
  };
  step('next');
});

/** `Array.fromAsync`. */
export function arrayFromAsync(items, map, self) {
  const Made = typeof this === 'function' ? this : Array;
  return awaiting((function* () {
    const own = items[Symbol.asyncIterator];
    // What has a length and no iterator is made an array of first.
    const begin = own ?? items[Symbol.iterator] ?? (() => Array.from(items).values());
    const iterator = begin.call(items);
    const array = new Made();
    let at = 0;
    for (;;) {
      const { done, value } = yield iterator.next();
      if (done) break;
      try {
        const item = own ? value : yield value;
        array[at] = map ? yield map.call(self, item, at) : item;
        at += 1;
      } catch (error) {
        yield Promise.try(() => iterator.return?.()).catch(() => {});
        throw error;
      }
    }
    array.length = at;
    return array;
  })());
}
