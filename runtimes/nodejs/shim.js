'use strict';
// Flint's shim for Node.js functions: one process, one link to Flint, one function.
// Contract: docs/link-protocol.md.

const { Instance } = require('./lib/instance');
const { install } = require('./lib/flint');
const stdio = require('./lib/stdio');

const fd = Number(process.env.FLINT_LINK_FD || 3);
const zygote = process.env.FLINT_ZYGOTE === '1';
delete process.env.FLINT_LINK_FD;
delete process.env.FLINT_ZYGOTE;

stdio.prepare();
install();
new Instance(fd, zygote ? require('./lib/zygote').prepare() : undefined).start();
