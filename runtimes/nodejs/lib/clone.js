'use strict';
// What is different in a clone: how it ends.

/** Ends this process by _exit: the threads that Node.js would wait for are in the zygote. */
function endAtOnce(native) {
  const { emit } = process;
  process.reallyExit = (status) => native.exit(Number(status) || 0);
  // `exit` is the last event, of process.exit and of a natural end alike; what Node.js does after it needs those threads.
  process.emit = function (event, ...values) {
    const heard = emit.call(this, event, ...values);
    if (event === 'exit') native.exit(Number(process.exitCode ?? values[0]) || 0);
    return heard;
  };
}

module.exports = { endAtOnce };
