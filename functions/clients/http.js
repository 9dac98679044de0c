'use strict';

const http = require('node:http');

/** One request with a JSON body (if any); the answer's status and its body as JSON. */
function request(method, url, body, headers = {}) {
  return new Promise((resolve, reject) => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const sent = http.request(url, {
      method,
      agent: false,
      headers: text === undefined
        ? headers
        : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text), ...headers },
    }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('error', reject);
      answer.on('end', () => {
        try {
          resolve({ status: answer.statusCode, json: JSON.parse(Buffer.concat(parts).toString()) });
        } catch (error) {
          reject(new Error(`${method} ${url}: ${error.message}`));
        }
      });
    });
    sent.on('error', (error) => reject(new Error(`${method} ${url}: ${error.message}`)));
    sent.end(text);
  });
}

module.exports = { request };
