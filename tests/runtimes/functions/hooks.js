'use strict';
// A server and a timer are in the way of a snapshot: the hooks take them away and bring them back.

const { createServer } = require('net');
const { beforeSnapshot, afterRestore } = require('flint');

const events = [];
let server;
let timer;

function open() {
  timer = setInterval(() => {}, 1000);
  server = createServer();
  return new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
}

open();
beforeSnapshot(() => new Promise((resolve) => {
  events.push('before');
  clearInterval(timer);
  server.close(resolve);
}));
afterRestore(() => events.push('after'));
afterRestore(open);

exports.main = () => ({ events, listening: server.listening && server.address().port > 0 });
