'use strict';
// What an asynchronous runtime must still be able to do in a clone: one case a call, `params.case`.
// Network cases stay on this machine. `params.cases` asks for the names.

const assert = require('assert');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { once } = require('events');
const { promisify } = require('util');

const WASM_ADD = Buffer.from('0061736d0100000001070160027f7f017f030201000707010361646400000a09010700200020016a0b', 'hex');

function scratch(name) {
  return path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'battery-')), name);
}

async function served(options, ask) {
  const http = require('http');
  const server = http.createServer((request, response) => {
    const pieces = [];
    request.on('data', (piece) => pieces.push(piece));
    request.on('end', () => response.end(`${request.method} ${Buffer.concat(pieces)}`));
  });
  server.listen(options);
  await once(server, 'listening');
  try {
    await ask(server.address());
  } finally {
    server.closeAllConnections?.();
    server.close();
  }
}

const cases = {
  async timeout() {
    const begin = Date.now();
    await new Promise((resolve) => { setTimeout(resolve, 20); });
    assert(Date.now() - begin >= 19);
  },
  async interval() {
    let ticks = 0;
    await new Promise((resolve) => {
      const timer = setInterval(() => {
        ticks += 1;
        if (ticks === 3) resolve(clearInterval(timer));
      }, 2);
    });
  },
  async immediate() {
    const order = [];
    process.nextTick(() => order.push('tick'));
    Promise.resolve().then(() => order.push('microtask'));
    await new Promise((resolve) => { setImmediate(resolve); });
    assert.deepStrictEqual(order.sort(), ['microtask', 'tick']);
  },
  async abort() {
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 5);
    await assert.rejects(require('timers/promises').setTimeout(10000, undefined, { signal: controller.signal }), { name: 'AbortError' });
  },
  async fileSystem() {
    const file = scratch('file');
    await fs.promises.writeFile(file, 'text');
    assert.strictEqual(await promisify(fs.readFile)(file, 'utf8'), 'text');
    await fs.promises.rm(path.dirname(file), { recursive: true });
  },
  async fileStream() {
    const file = scratch('stream');
    await require('stream/promises').pipeline(require('stream').Readable.from(['a', 'b', 'c']), fs.createWriteStream(file));
    let text = '';
    for await (const piece of fs.createReadStream(file, 'utf8')) text += piece;
    assert.strictEqual(text, 'abc');
  },
  async fileWatch() {
    const file = scratch('watched');
    fs.writeFileSync(file, 'a');
    // By polling: sandboxes have no inotify.
    const changed = new Promise((resolve) => fs.watchFile(file, { interval: 10 }, resolve));
    const writer = setInterval(() => fs.appendFileSync(file, 'b'), 5);
    await changed;
    clearInterval(writer);
    fs.unwatchFile(file);
  },
  async poolInParallel() {
    const files = Array.from({ length: 16 }, (_, i) => fs.promises.stat(i % 2 ? '/' : __filename));
    assert.strictEqual((await Promise.all(files)).length, 16);
  },
  async pbkdf2() {
    const key = await promisify(require('crypto').pbkdf2)('secret', 'salt', 1000, 32, 'sha256');
    assert.strictEqual(key.toString('hex'), require('crypto').pbkdf2Sync('secret', 'salt', 1000, 32, 'sha256').toString('hex'));
  },
  async randomBytes() {
    assert.strictEqual((await promisify(require('crypto').randomBytes)(32)).length, 32);
  },
  async keyPair() {
    const { privateKey, publicKey } = await promisify(require('crypto').generateKeyPair)('ec', { namedCurve: 'P-256' });
    const signature = require('crypto').sign('sha256', Buffer.from('text'), privateKey);
    assert(require('crypto').verify('sha256', Buffer.from('text'), publicKey, signature));
  },
  async webCrypto() {
    const digest = await require('crypto').webcrypto.subtle.digest('SHA-256', Buffer.from('text'));
    assert.strictEqual(Buffer.from(digest).toString('hex'), require('crypto').createHash('sha256').update('text').digest('hex'));
  },
  async zlib() {
    const zlib = require('zlib');
    const data = Buffer.alloc(200000, 'flint ');
    assert(data.equals(await promisify(zlib.gunzip)(await promisify(zlib.gzip)(data))));
    assert(data.equals(await promisify(zlib.brotliDecompress)(await promisify(zlib.brotliCompress)(data))));
  },
  async dns() {
    // Where there is no network and no hosts file the resolver still has to answer.
    const answer = await require('dns').promises.lookup('localhost').catch((error) => error);
    assert(answer.address === '127.0.0.1' || answer.address === '::1' || typeof answer.code === 'string', String(answer));
  },
  async unixSocket() {
    const net = require('net');
    const file = scratch('socket');
    const server = net.createServer((socket) => socket.pipe(socket)).listen(file);
    await once(server, 'listening');
    const socket = net.connect(file);
    socket.end('echo');
    let text = '';
    for await (const piece of socket) text += piece;
    server.close();
    assert.strictEqual(text, 'echo');
  },
  async http() {
    const file = scratch('http');
    await served({ path: file }, () => new Promise((resolve, reject) => {
      require('http').request({ socketPath: file, method: 'POST' }, (response) => {
        let text = '';
        response.on('data', (piece) => { text += piece; });
        response.on('end', () => (text === 'POST body' ? resolve() : reject(new Error(text))));
      }).on('error', reject).end('body');
    }));
  },
  async fetch() {
    await served({ port: 0, host: '127.0.0.1' }, async ({ port }) => {
      assert.strictEqual(await (await fetch(`http://127.0.0.1:${port}`, { method: 'PUT', body: 'bytes' })).text(), 'PUT bytes');
    });
  },
  async exec() {
    const { stdout } = await promisify(require('child_process').execFile)(process.execPath, ['-p', '6 * 7']);
    assert.strictEqual(stdout.trim(), '42');
  },
  async spawn() {
    const child = require('child_process').spawn(process.execPath, ['-e', 'process.stdin.pipe(process.stdout); process.stdin.on("end", () => { process.exitCode = 7; });']);
    let text = '';
    child.stdout.on('data', (piece) => { text += piece; });
    child.stdin.end('through a child');
    const [status] = await once(child, 'close');
    assert.deepStrictEqual([status, text], [7, 'through a child']);
  },
  spawnSync() {
    const { status } = require('child_process').spawnSync(process.execPath, ['-e', 'process.exit(5)']);
    assert.strictEqual(status, 5);
  },
  async worker() {
    const { Worker } = require('worker_threads');
    const worker = new Worker('const { parentPort } = require("worker_threads"); parentPort.on("message", (n) => { parentPort.postMessage(n * 2); });', { eval: true });
    worker.postMessage(21);
    const [answer] = await once(worker, 'message');
    assert.strictEqual(answer, 42);
    assert.strictEqual(await worker.terminate(), 1);
  },
  async messageChannel() {
    const { port1, port2 } = new MessageChannel();
    const got = once(port2, 'message');
    port1.postMessage({ a: new Map([[1, 2]]) });
    assert.strictEqual((await got)[0].a?.get(1) ?? (await got)[0].data?.a.get(1), 2);
    port1.close();
  },
  async webAssembly() {
    assert.strictEqual(new WebAssembly.Instance(new WebAssembly.Module(WASM_ADD)).exports.add(2, 3), 5);
    const { instance } = await WebAssembly.instantiate(WASM_ADD);
    let sum = 0;
    for (let i = 0; i < 100000; i++) sum = instance.exports.add(sum, 1);
    assert.strictEqual(sum, 100000);
  },
  async signal() {
    const got = once(process, 'SIGUSR2');
    process.kill(process.pid, 'SIGUSR2');
    await got;
  },
  async signalChild() {
    const child = require('child_process').spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60000)']);
    await once(child, 'spawn');
    child.kill('SIGTERM');
    assert.deepStrictEqual(await once(child, 'exit'), [null, 'SIGTERM']);
  },
  garbage() {
    let kept = [];
    for (let i = 0; i < 300; i++) {
      kept.push(Array.from({ length: 2000 }, (_, at) => ({ at, text: `${i}:${at}` })));
      if (kept.length > 20) kept = kept.slice(10);
    }
    assert(kept.length > 0);
  },
  newCode() {
    const sum = new Function('n', 'let s = 0; for (let i = 0; i < n; i++) s = (s + i * 3) % 1000003; return s;');
    assert.strictEqual(sum(3e6), sum(3e6));
  },
  async dynamicImport() {
    assert.strictEqual((await import(`data:text/javascript,export default await Promise.resolve(${process.pid});`)).default, process.pid);
    assert.strictEqual((await import('node:path')).default, path);
  },
  async asyncLocalStorage() {
    const storage = new (require('async_hooks').AsyncLocalStorage)();
    await storage.run('here', async () => {
      await fs.promises.stat('/');
      assert.strictEqual(storage.getStore(), 'here');
    });
  },
  async output() {
    await new Promise((resolve) => { process.stdout.write('to stdout\n', resolve); });
    console.error('to stderr');
  },
};

exports.main = async ({ case: name, cases: list }) => {
  if (list) return { cases: Object.keys(cases) };
  if (cases[name] === undefined) return { ok: true, case: 'none' };
  await cases[name]();
  return { ok: true };
};
