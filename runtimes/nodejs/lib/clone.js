'use strict';
// How a clone exits.

const stdio = require('./stdio');

/** From here on this process exits by _exit, because the threads for which Node.js would wait exist only in the zygote. */
function endAtOnce(native) {
  const { emit } = process;
  process.reallyExit = (status) => native.exit(Number(status) || 0);
  process.emit = function (event, ...values) {
    // Without a listener Node.js prints an uncaught exception only after `exit`, which is not reached here.
    if (event === 'uncaughtExceptionMonitor' && this.listenerCount('uncaughtException') === 0) stdio.printError(values[0]);
    const heard = emit.call(this, event, ...values);
    // The last event, both of process.exit and of a natural end.
    if (event === 'exit') native.exit(Number(process.exitCode ?? values[0]) || 0);
    return heard;
  };
}

module.exports = { endAtOnce };
