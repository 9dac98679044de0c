'use strict';
// The module that user code gets by require('flint') and import 'flint'.

exports.beforeSnapshot = globalThis.flint.beforeSnapshot;
exports.afterRestore = globalThis.flint.afterRestore;
