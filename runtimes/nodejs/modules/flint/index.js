'use strict';
// What user code gets for require('flint') and import 'flint'.

exports.beforeSnapshot = globalThis.flint.beforeSnapshot;
exports.afterRestore = globalThis.flint.afterRestore;
