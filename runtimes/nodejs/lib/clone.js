'use strict';
// How a clone ends.

const stdio = require('./stdio');

/** From here on this process ends by _exit: the threads that Node.js would wait for are in the zygote. */
function endAtOnce(native) {
  const { emit } = process;
  process.reallyExit = (status) => native.exit(Number(status) || 0);
  process.emit = function (event, ...values) {
    // Without a listener for it an uncaught exception is printed by what comes after `exit`, which here never comes.
    if (event === 'uncaughtExceptionMonitor' && this.listenerCount('uncaughtException') === 0) stdio.printError(values[0]);
    const heard = emit.call(this, event, ...values);
    // The last event, of process.exit and of a natural end alike.
    if (event === 'exit') native.exit(Number(process.exitCode ?? values[0]) || 0);
    return heard;
  };
}

module.exports = { endAtOnce };
