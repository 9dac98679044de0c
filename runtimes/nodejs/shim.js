'use strict';
// Flint's shim for Node.js functions: one process, one link to Flint, one function.
// Contract: docs/link-protocol.md.

const { Instance } = require('./lib/instance');
const stdio = require('./lib/stdio');

const fd = Number(process.env.FLINT_LINK_FD || 3);
delete process.env.FLINT_LINK_FD;

stdio.prepare();
new Instance(fd).start();
