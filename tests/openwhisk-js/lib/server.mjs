// A Flint server on a free port with its own data, and clients for it.

import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, openSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import openwhisk from 'openwhisk';

// The well-known guest key, which works on loopback only.
export const GUEST =
  '23bc46b1-71f6-4ed5-8c54-816aa4f8c502:123zO3xZCLrMN6v2BKK1dXYFpXlPkccOFqm12CdAsMgRU4VrNZ9lyGVCGuMDGIwP';

const ROOMY = {
  FLINT_LIMITS__INVOCATIONS_PER_MINUTE: '1000000',
  FLINT_LIMITS__CONCURRENT_INVOCATIONS: '10000',
};

export async function freePort() {
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address();
  listener.close();
  await once(listener, 'close');
  return port;
}

/** Asks until there is a true answer; fails after a time that is a bound on hanging and not a promise of speed. */
export async function eventually(what, ask, seconds = 180) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    if (Date.now() > end) throw new Error(`${what} did not come about within ${seconds} s`);
    await sleep(20);
  }
}

export class Server {
  static async start(settings = {}) {
    for (let tries = 1; ; tries += 1) {
      try {
        return await Server.#started(settings);
      } catch (error) {
        // Somebody else was given the port that was free a moment ago.
        if (tries === 5 || !error.message.includes(' is in use')) throw error;
      }
    }
  }

  static async #started(settings) {
    const server = new Server();
    server.dir = mkdtempSync(join(tmpdir(), 'flint-openwhisk-js-'));
    server.port = await freePort();
    server.url = `http://127.0.0.1:${server.port}`;
    server.logFile = join(server.dir, 'server.log');
    const log = openSync(server.logFile, 'a');
    const args = ['up', '--listen', `127.0.0.1:${server.port}`, '--data-dir', join(server.dir, 'data')];
    server.process = spawn(process.env.FLINT_BIN, args, {
      env: { ...process.env, ...ROOMY, ...settings },
      stdio: ['ignore', log, log],
    });
    await eventually('a ready server', async () => {
      if (server.process.exitCode !== null) throw new Error(`the server ended:\n${server.log()}`);
      return fetch(`${server.url}/ping`).then((answer) => answer.ok, () => false);
    });
    server.runtimes = (await (await fetch(`${server.url}/`)).json()).runtimes;
    return server;
  }

  client(options = {}) {
    return openwhisk({ apihost: this.url, api_key: GUEST, ...options });
  }

  log() {
    return readFileSync(this.logFile, 'utf8').slice(-8000);
  }

  /** A request as no client would send it. */
  raw(method, path, { key = GUEST, headers = {}, body } = {}) {
    if (key) headers = { authorization: `Basic ${Buffer.from(key).toString('base64')}`, ...headers };
    return fetch(`${this.url}/api/v1/namespaces/_/${path}`, { method, headers, body });
  }

  async stop() {
    if (this.process.exitCode === null) {
      this.process.kill('SIGTERM');
      await once(this.process, 'exit');
    }
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** The error that a promise ends with. */
export async function failure(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error('it was expected to fail');
}

/** A record, once it is stored. */
export function record(ow, name) {
  return eventually(`the record of ${name}`, () =>
    ow.activations.get({ name }).catch((error) => {
      if (error.statusCode === 404) return undefined;
      throw error;
    }),
  );
}
