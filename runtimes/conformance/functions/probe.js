'use strict';
const { execSync } = require('child_process');

let calls = 0;
let streamsClosed = 0;
const atLoad = process.env.GREETING;

function main(params, context) {
  calls += 1;
  if (Buffer.isBuffer(params.body)) {
    return new Response(params.body, { headers: { 'content-type': params.contentType, 'x-length': String(params.body.length), 'x-method': String(params.method) } });
  }
  switch (params.do) {
    case 'fail': throw new Error('boom');
    case 'scalar': return 5;
    case 'unencodable': return { value: 10n };
    case 'binary': return Buffer.from([0, 255, 128, 10]);
    case 'response': return new Response('héllo', { status: 201, headers: { 'content-type': 'text/plain; charset=utf-8', 'x-made': 'by probe' } });
    case 'stream': return pieces(params.pieces, params.size, params.pauseMs ?? 5);
    case 'streamFails': return failing();
    case 'log': return log(params.lines);
    case 'env': return Object.fromEntries(params.names.map((name) => [name, process.env[name] ?? null]));
    case 'envOfChild': return { lines: execSync('env').toString().split('\n') };
    case 'context': return { activation: context.activationId, name: context.functionName, version: context.functionVersion, namespace: context.namespace, remaining: context.getRemainingTimeInMillis(), method: context.method ?? null, headers: context.headers ?? null };
    case 'exit': return process.exit(7);
    case 'closeStdout': process.stdout.end(); return { closed: true };
    case 'descriptors': return { text: execSync('ls -l /proc/self/fd').toString() };
    case 'state': return { calls, streamsClosed, atLoad: atLoad ?? null };
    case 'echoArray': return params.items;
    default: return params;
  }
}

async function* pieces(count, size, pauseMs) {
  try {
    for (let i = 0; count === undefined || i < count; i++) {
      yield Buffer.alloc(size, i & 255);
      if (count === undefined) await new Promise((resolve) => { setTimeout(resolve, pauseMs); });
    }
  } finally {
    streamsClosed += 1;
  }
}

async function* failing() {
  yield 'a beginning';
  throw new Error('boom');
}

function log(lines) {
  for (let i = 0; i < lines; i++) {
    console.log(`out ${i} ☃`);
    console.error(`err ${i} ☃`);
  }
  return {};
}

exports.main = main;
