'use strict';

// Hands requests that come in through descriptor 3 on to the server, and its answers back.      proxy.js URL

const http = require('node:http');

const upstream = new URL(process.argv[2]);
const agent = new http.Agent({ keepAlive: true, maxFreeSockets: 256 });

http.createServer({ keepAlive: true, requestTimeout: 0 }, (request, response) => {
  const { method, url, headers } = request;
  // The server only accepts its own host names.
  const sent = http.request(new URL(url, upstream), { method, agent, headers: { ...headers, host: upstream.host } }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  sent.on('error', (error) => {
    if (response.headersSent) return response.destroy();
    response.writeHead(502, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ error: `the server cannot be reached: ${error.message}` }));
  });
  response.on('close', () => sent.destroy());
  request.pipe(sent);
}).listen({ fd: 3 });
