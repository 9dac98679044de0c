'use strict';

// Inside the container: takes the function's code once at /init, and calls of it at /run, as OpenWhisk's runtimes do.
//      proxy.js SOCKET

const http = require('node:http');

let main;

function init({ value }) {
  const module = { exports: {} };
  if (value.file) module.exports = require(value.file);
  else new Function('module', 'exports', 'require', value.code)(module, module.exports, require);
  main = module.exports[value.main];
  if (typeof main !== 'function') throw new Error(`the code does not export ${value.main}`);
  return { ok: true };
}

const server = http.createServer((request, response) => {
  const pieces = [];
  request.on('data', (piece) => pieces.push(piece));
  request.on('end', async () => {
    let status = 200;
    let body;
    try {
      const asked = JSON.parse(Buffer.concat(pieces).toString());
      body = request.url === '/init' ? init(asked) : await main(asked.value);
    } catch (error) {
      [status, body] = [502, { error: String(error) }];
    }
    const answer = Buffer.from(JSON.stringify(body));
    response.writeHead(status, { 'content-type': 'application/json', 'content-length': answer.length });
    response.end(answer);
  });
});
// The gateway keeps its connection for as long as it keeps the container.
server.keepAliveTimeout = 0;
server.listen(process.argv[2]);
