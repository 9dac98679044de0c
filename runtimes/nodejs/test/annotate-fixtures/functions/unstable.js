'use strict';
// Throws its own optimised code away in each call (needs V8's --allow-natives-syntax).

const drop = new Function('f', '%DeoptimizeFunction(f)');

function read(object) {
  drop(read);
  return object.value + 1;
}

exports.main = async () => ({ read: read({ value: 1 }) });
