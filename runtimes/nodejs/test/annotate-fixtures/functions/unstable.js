'use strict';
// Functions that throw their own optimised code away in each call (needs V8's --allow-natives-syntax).

const drop = new Function('f', '%DeoptimizeFunction(f)');

function read(object) {
  drop(read);
  return object.value + 1;
}

exports.main = async () => {
  const again = (n) => {
    drop(again);
    let sum = 0;
    for (let i = 0; i < n; i++) sum += i;
    return sum;
  };
  return { read: read({ value: 1 }), again: [5, 6].sort((a, b) => again(a) - again(b)) };
};
