'use strict';
// V8's log of what it optimises, written to a file while it is needed.
//
// Deoptimisations (--trace-deopt) are not logged: V8 prints parts of that to stdout in any case.

const fs = require('fs');
const os = require('os');
const path = require('path');
const v8 = require('v8');

// V8 accepts the file's name once per process.
let file = null;

/** What V8 has compiled since the log was last read. */
class Events {
  constructor(text) {
    this.text = text;
    this.compiled = [];
    this.replaced = []; // compiled for a running loop (on-stack replacement), while the function itself was not optimised
    for (const line of text.split('\n')) {
      const match = /^\[compiling method .*?<JSFunction (?:(.*?) )?\(sfi.*\(target (\w+)\)/.exec(line);
      if (match !== null) {
        const [, name = '', tier] = match;
        if (!line.includes(' OSR')) this.compiled.push({ name, tier: tier.startsWith('MAGLEV') ? 'maglev' : 'turbofan', line });
        else this.replaced.push({ name, line });
      }
    }
  }
}

class Trace {
  /** Starts the log; null if it cannot be separated from the function's own output. */
  static open() {
    const given = [...process.execArgv, process.env.NODE_OPTIONS || ''].join(' ');
    if (/--(trace|redirect)[-_]/.test(given)) return null; // V8 would close its stdout
    try {
      if (file === null) file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'flint-')), 'v8-trace');
      fs.mkdirSync(path.dirname(file), { recursive: true });
      fs.writeFileSync(file, '');
    } catch {
      return null;
    }
    if (/\s/.test(file)) return null;
    v8.setFlagsFromString('--redirect-code-traces');
    v8.setFlagsFromString(`--redirect-code-traces-to=${file}`);
    v8.setFlagsFromString('--trace-opt');
    return new Trace();
  }

  /** Runs something for which V8 would print to stdout while the log is on. */
  unwatched(act) {
    v8.setFlagsFromString('--no-trace-opt');
    try {
      return act();
    } finally {
      v8.setFlagsFromString('--trace-opt');
    }
  }

  read() {
    let text = '';
    try {
      text = fs.readFileSync(file, 'utf8');
      fs.truncateSync(file);
    } catch {
      // user code removed it; V8 creates it again
    }
    return new Events(text);
  }

  /** Ends the log. The redirection stays set, because V8 keeps the name and would otherwise write nowhere. */
  close() {
    v8.setFlagsFromString('--no-trace-opt');
    fs.rmSync(path.dirname(file), { recursive: true, force: true });
  }
}

module.exports = { Trace };
