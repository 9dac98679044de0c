'use strict';
// What a handler may do, and what its caller gets.

const assert = require('assert');
const test = require('node:test');
const { Kind, encodeFrame } = require('../lib/frame');
const { started } = require('./peer');

const results = {
  'a value': ['return { a: 1 };', { a: 1 }],
  'undefined': ['', {}],
  'an array': ['return [1, 2];', [1, 2]],
  'a promise': ['return Promise.resolve({ a: 1 });', { a: 1 }],
  'a promise of undefined': ['return Promise.resolve();', {}],
  'a thenable': ['return { then(resolve) { resolve({ a: 1 }); } };', { a: 1 }],
  'something with toJSON': ['return { toJSON: () => ({ a: 1 }) };', { a: 1 }],
  'an object without prototype': ['return Object.assign(Object.create(null), { a: 1 });', { a: 1 }],
  'a rejection with an Error': ['return Promise.reject(new Error("no"));', { error: 'no' }],
  'a rejection with an object': ['return Promise.reject({ code: 7 });', { error: { code: 7 } }],
  'a rejection with a string': ['return Promise.reject("no");', { error: 'no' }],
  'a rejection with nothing': ['return Promise.reject();', { error: {} }],
  'a rejection with what JSON cannot express': ['return Promise.reject(10n);', { error: '10' }],
  'a throw in an async function': ['return (async () => { throw new Error("no"); })();', { error: 'no' }],
};

for (const [name, [body, expected]] of Object.entries(results)) {
  test(`result: ${name}`, async (t) => {
    const peer = await started(t, `exports.main = () => { ${body} };`);
    assert.deepStrictEqual((await peer.invoke()).result, expected);
    assert.deepStrictEqual((await peer.invoke()).result, expected);
  });
}

const ENTERS = `const { AsyncLocalStorage } = require('async_hooks');
  const ofACall = new AsyncLocalStorage();
  exports.main = (params) => {
    const before = ofACall.getStore() || null;
    ofACall.enterWith(params.n);
    const answer = () => ({ before, after: ofACall.getStore() });
    return params.waits ? new Promise((resolve) => { setTimeout(() => resolve(answer()), 1); }) : answer();
  };`;

for (const concurrency of [1, 2]) {
  test(`what a handler enters stays in its call, of ${concurrency} at once`, async (t) => {
    const peer = await started(t, ENTERS, { init: { concurrency } });
    for (const [n, waits] of [[1, false], [2, true], [3, true], [4, false]]) {
      assert.deepStrictEqual((await peer.invoke({ n, waits })).result, { before: null, after: n });
    }
  });
}

const refused = {
  'a number': ['return 5;', /dictionary or array\. It returned a value of type number/],
  'a string': ['return "text";', /dictionary or array\. It returned a value of type string/],
  'null': ['return null;', /dictionary or array\. It returned a value of type null/],
  'a function': ['return () => 1;', /dictionary or array\. It returned a value of type function/],
  'a date': ['return new Date(0);', /dictionary or array\. It returned a value of type Date/],
  'a circle': ['const a = {}; a.a = a; return a;', /dictionary or array\. .*circular/],
  'a bigint inside': ['return { a: 1n };', /dictionary or array\. .*BigInt/],
  'a promise of a number': ['return Promise.resolve(5);', /dictionary or array/],
  'a throw': ['throw new TypeError("no");', /^An error has occurred: TypeError: no$/],
  'a throw of a string': ['throw "no";', /^An error has occurred: no$/],
  'a revoked proxy': ['const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return proxy;', /^An error has occurred: TypeError: .*revoked/],
  'a Response that throws': ['const r = new Response("x"); Object.defineProperty(r, "headers", { get() { return { get() {}, [Symbol.iterator]() { throw new Error("no"); } }; } }); return r;', /^An error has occurred: Error: no$/],
  'a Response with a head that is too large': ['return new Response("x", { headers: { "x-a": "y".repeat(2 << 20) } });', /^The head of the answer is too large: .* and may have 262144\.$/],
  'a Response without a body and with a head that is too large': ['return new Response(null, { headers: { "x-a": "y".repeat(300 << 10) } });', /^The head of the answer is too large: .* and may have 262144\.$/],
  'a generator of numbers': ['return (function* () { yield 5; })();', /strings or bytes, not of number/],
  'a stream of numbers': ['return (async function* () { yield 5; })();', /strings or bytes, not of number/],
};

for (const [name, [body, message]] of Object.entries(refused)) {
  test(`developer error: ${name}`, async (t) => {
    const peer = await started(t, `exports.main = (params) => { if (params.fine) return params; ${body} };`);
    const { error } = await peer.invoke();
    assert.strictEqual(error.kind, 'developer');
    assert.match(error.message, message);
    assert.deepStrictEqual((await peer.invoke({ fine: true })).result, { fine: true });
  });
}

const ends = {
  'exit': ['process.exit(3);', null],
  'an error outside of the handler': ['throw new Error("late");', /outside of the handler: Error: late/],
};

for (const [name, [end, message]] of Object.entries(ends)) {
  test(`what concurrent calls have begun to print is sent before the process ends: ${name}`, async (t) => {
    const source = `exports.main = ({ n, last }) => new Promise(() => { process.stdout.write('step ' + n); if (last) setTimeout(() => { ${end} }, 1); });`;
    const peer = await started(t, source, { init: { concurrency: 2 } });
    peer.send({ n: 1 });
    peer.send({ n: 2, last: true });
    const lines = {};
    const errors = {};
    for (let frame = await peer.next(); frame !== null; frame = await peer.next()) {
      if (frame.kind === Kind.LOG && frame.payload[0] === 1) lines[frame.call] = frame.payload.subarray(1).toString();
      else if (frame.kind === Kind.ERROR) errors[frame.call] = JSON.parse(frame.payload).message;
    }
    assert.deepStrictEqual(lines, { 1: 'step 1', 2: 'step 2' });
    assert.deepStrictEqual(Object.keys(errors), message === null ? [] : ['1', '2']);
    for (const text of Object.values(errors)) assert.match(text, message);
  });
}

const halves = {
  'thrown': ["throw new Error('bad \u{1f600}'.slice(0, -1));", 'An error has occurred: Error: bad \ufffd'],
  'cut off by the shim': ["throw '\u{1f600}'.repeat(40000);", /^An error has occurred: (\u{1f600})*\ufffd$/u],
};

for (const [name, [body, message]] of Object.entries(halves)) {
  test(`a message with half a character is text: ${name}`, async (t) => {
    const peer = await started(t, `exports.main = () => { ${body} };`);
    const { error } = await peer.invoke();
    if (typeof message === 'string') assert.strictEqual(error.message, message);
    else assert.match(error.message, message);
  });
}

const binary = {
  'a Buffer': ['return Buffer.from("bytes");', 'application/octet-stream'],
  'a Uint8Array that is part of another': ['return new TextEncoder().encode("a bytes").subarray(2);', 'application/octet-stream'],
  'an ArrayBuffer': ['return new TextEncoder().encode("bytes").buffer;', 'application/octet-stream'],
  'a promise of a Buffer': ['return Promise.resolve(Buffer.from("bytes"));', 'application/octet-stream'],
  'an async generator': ['return (async function* () { yield "by"; yield Buffer.from("tes"); })();', 'application/octet-stream'],
  'a generator': ['return (function* () { yield "by"; yield Buffer.from("tes"); })();', 'application/octet-stream'],
  'a Readable': ['return require("stream").Readable.from(["by", "tes"]);', 'application/octet-stream'],
  'a ReadableStream': ['return new Blob(["bytes"]).stream();', 'application/octet-stream'],
  'a Response': ['return new Response("bytes", { headers: { "Content-Type": "text/css" } });', 'text/css'],
  'a Response with a stream': ['return new Response(new Blob(["bytes"]).stream(), { headers: { "content-type": "text/css" } });', 'text/css'],
};

for (const [name, [body, type]] of Object.entries(binary)) {
  test(`bytes: ${name}`, async (t) => {
    const peer = await started(t, `exports.main = () => { ${body} };`);
    const answer = await peer.invoke();
    assert.strictEqual(answer.body.toString(), 'bytes');
    assert.strictEqual(new Map(answer.head.headers).get('content-type'), type);
  });
}

test('a Response without a body', async (t) => {
  const peer = await started(t, 'exports.main = () => new Response(null, { status: 204 });');
  const answer = await peer.invoke();
  assert.deepStrictEqual([answer.head.status, answer.body.length], [204, 0]);
});

test('a JSON answer as a Response', async (t) => {
  const peer = await started(t, 'exports.main = () => Response.json({ a: 1 });');
  const answer = await peer.invoke();
  assert.deepStrictEqual([answer.head.status, JSON.parse(answer.body)], [200, { a: 1 }]);
});

for (const [name, body] of Object.entries({
  'a body that was read': 'const r = new Response("x"); await r.text(); return r;',
  'a body that is being read': 'const r = new Response("x"); r.body.getReader(); return r;',
  'a stream that is being read': 'const s = new Blob(["x"]).stream(); s.getReader(); return s;',
})) {
  test(`developer error before the answer begins: ${name}`, async (t) => {
    const peer = await started(t, `exports.main = async ({ fine }) => { if (fine) return { fine }; ${body} };`);
    const { head, error } = await peer.invoke();
    assert.strictEqual(head, undefined);
    assert.match(error.message, /a body that it has read already/);
    assert.deepStrictEqual((await peer.invoke({ fine: true })).result, { fine: true });
  });
}

test('a Response that fetch has decoded does not say that it is encoded', async (t) => {
  const peer = await started(t, `
    const http = require('http');
    const zlib = require('zlib');
    const text = 'bytes'.repeat(100);
    exports.main = async ({ coding, method }) => {
      const body = coding === 'gzip' ? zlib.gzipSync(text) : Buffer.from(text);
      const server = http.createServer((request, response) => {
        response.writeHead(200, { 'content-encoding': coding, 'content-length': body.length, 'x-from': 'there', connection: 'close' });
        response.end(body);
        server.close();
      });
      await new Promise((listening) => { server.listen(0, '127.0.0.1', listening); });
      return fetch('http://127.0.0.1:' + server.address().port, { method });
    };`);
  const gzip = await peer.invoke({ coding: 'gzip' });
  const headers = new Map(gzip.head.headers);
  assert.strictEqual(gzip.body.toString(), 'bytes'.repeat(100));
  assert.deepStrictEqual(['content-encoding', 'content-length', 'x-from'].map((name) => headers.get(name)), [undefined, undefined, 'there']);
  const unknown = await peer.invoke({ coding: 'other' });
  assert.deepStrictEqual(['content-encoding', 'content-length'].map((name) => new Map(unknown.head.headers).get(name)), ['other', '500']);
  const head = await peer.invoke({ coding: 'gzip', method: 'HEAD' });
  assert.strictEqual(new Map(head.head.headers).get('content-encoding'), 'gzip');
});

test('a Response of a package', async (t) => {
  const peer = await started(t, `
    class Response {
      constructor(body) { Object.assign(this, { body, status: 201, headers: new Headers({ 'x-a': 'b' }), url: '' }); }
      get [Symbol.toStringTag]() { return 'Response'; }
    }
    exports.main = ({ text }) => new Response(text ? Buffer.from(text) : require('stream').Readable.from(['by', 'tes']));`);
  for (const params of [{}, { text: 'bytes' }]) {
    const { head, body } = await peer.invoke(params);
    assert.deepStrictEqual([head, body.toString()], [{ status: 201, headers: [['x-a', 'b']] }, 'bytes']);
  }
});

test('two cookies stay two headers', async (t) => {
  const peer = await started(t, `exports.main = () => {
    const headers = new Headers();
    headers.append('set-cookie', 'a=1');
    headers.append('set-cookie', 'b=2');
    return new Response('', { headers });
  };`);
  const { head } = await peer.invoke();
  assert.deepStrictEqual(head.headers.filter(([name]) => name === 'set-cookie').map(([, value]) => value), ['a=1', 'b=2']);
});

test('stack traces show the user\'s file and lines', async (t) => {
  const peer = await started(t, '// a comment\nfunction main() {\n  throw new Error("here");\n}\n');
  await peer.invoke();
  await peer.stop();
  assert.match(peer.stderr, /^Error: here\n +at main \(.*index\.js:3:9\)\n$/);
});

test('a function is not called as a method of the shim', async (t) => {
  const peer = await started(t, 'function main() { return { same: this === globalThis }; }');
  assert.deepStrictEqual((await peer.invoke()).result, { same: true });
});

test('errors are printed with their own properties and causes, without frames of the shim', async (t) => {
  const peer = await started(t, `function main({ message }) {
    throw Object.assign(new Error(message, { cause: new TypeError("why") }), { code: 7 });
  }`);
  await peer.invoke({ message: 'at most {' });
  await peer.stop();
  assert.doesNotMatch(peer.stderr, /lib.instance\.js/);
  assert.match(peer.stderr, /^Error: at most \{\n +at main \(.*index\.js:2:.*\)\n[^]* \{\n/);
  assert.match(peer.stderr, /code: 7/);
  assert.match(peer.stderr, /\[cause\]: TypeError: why\n +at main \(.*index\.js:2:/);
  const others = {
    'try { JSON.parse("{"); } catch (cause) { throw new Error("out", { cause }); }': /^Error: out\n +at main [^]*\[cause\]: SyntaxError: [^]*at main /,
    'throw new AggregateError([new Error("one"), new Error("two")], "both");': /Error: one\n +at main \(.*\),\n +Error: two\n/,
  };
  for (const [body, printed] of Object.entries(others)) {
    const other = await started(t, `function main() { ${body} }`);
    await other.invoke();
    await other.stop();
    assert.match(other.stderr, printed);
    assert.doesNotMatch(other.stderr, /node:|lib.instance\.js/);
  }
});

test('calls may overlap', async (t) => {
  const peer = await started(t, `
    let finishFirst;
    exports.main = ({ which }) => new Promise((done) => {
      if (which === 'first') finishFirst = () => done({ which });
      else {
        setTimeout(finishFirst, 20);
        done({ which });
      }
    });`);
  const first = peer.send({ which: 'first' });
  const second = peer.send({ which: 'second' });
  assert.deepStrictEqual(await peer.answer(), { call: second, result: { which: 'second' } });
  assert.deepStrictEqual(await peer.answer(), { call: first, result: { which: 'first' } });
});

test('an exception outside of the handler ends the call and the process', async (t) => {
  const peer = await started(t, 'exports.main = () => new Promise(() => { setTimeout(() => { throw new Error("late"); }, 5); });');
  const { call, error } = await peer.invoke();
  assert.deepStrictEqual([call, error], [1, { kind: 'developer', message: 'An error has occurred outside of the handler: Error: late' }]);
  assert.strictEqual(await peer.exited, 1);
  assert.match(peer.stderr, /late/);
});

test('a rejection that nobody handles ends the process, on call 0 when no call runs', async (t) => {
  const peer = await started(t, 'exports.main = () => { Promise.reject(new Error("lost")); return {}; };');
  assert.deepStrictEqual((await peer.invoke()).result, {});
  const frame = await peer.next();
  assert.deepStrictEqual([frame.kind, frame.call], [Kind.ERROR, 0]);
  assert.strictEqual(await peer.exited, 1);
});

test('user code may handle uncaught exceptions itself', async (t) => {
  const peer = await started(t, `
    process.on('uncaughtException', () => { console.log('handled'); });
    exports.main = () => new Promise((done) => { setTimeout(() => { setTimeout(() => done({ a: 1 }), 20); throw new Error('late'); }, 5); });`);
  assert.deepStrictEqual((await peer.invoke()).result, { a: 1 });
  await peer.stop();
  assert.strictEqual(peer.stdout, 'handled\n');
});

test('a stream whose caller is gone ends at once, though its next piece may never come', async (t) => {
  const peer = await started(t, `
    exports.main = ({ waits }) => (waits ? (async function* () { yield 'first'; await new Promise((resolve) => { setTimeout(resolve, 60000).unref(); }); })() : { a: 1 });`);
  const call = peer.send({ waits: true });
  for (const kind of [Kind.RESULT, Kind.BODY]) assert.strictEqual((await peer.next()).kind, kind);
  peer.link.write(encodeFrame(Kind.ERROR, false, call, Buffer.from('{"kind":"cancelled","message":"the caller has gone away"}')));
  const end = await peer.next();
  assert.deepStrictEqual([end.kind, end.call], [Kind.END, call]);
  assert.deepStrictEqual((await peer.invoke()).result, { a: 1 });
});

test('patched globals do not break the shim', async (t) => {
  const peer = await started(t, 'JSON.stringify = JSON.parse = () => { throw new Error("patched"); };\nconsole.log = () => {};\nrequire("fs").writeSync = () => 0;\nexports.main = (params) => params;');
  assert.deepStrictEqual((await peer.invoke({ a: 1 })).result, { a: 1 });
});

