// A real server of NATS on a free port, and a sender in its own protocol, which is text.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually, freePort } from './server.mjs';

// Debian has it where not everybody's PATH leads.
const USUAL = '/usr/sbin/nats-server';
const ENDED = 'nats-server has ended';

export class Nats {
  static async start() {
    for (let tries = 1; ; tries += 1) {
      try {
        return await Nats.#started();
      } catch (error) {
        // Somebody else was given the port that was free a moment ago.
        if (tries === 5 || error.message !== ENDED) throw error;
      }
    }
  }

  static async #started() {
    const nats = new Nats();
    nats.dir = mkdtempSync(join(tmpdir(), 'flint-nats-'));
    nats.port = await freePort();
    nats.host = `127.0.0.1:${nats.port}`;
    const args = ['-a', '127.0.0.1', '-p', String(nats.port), '-js', '-sd', nats.dir];
    nats.process = spawn(existsSync(USUAL) ? USUAL : 'nats-server', args, { stdio: 'ignore' });
    await eventually('nats-server', async () => {
      if (nats.process.exitCode !== null) throw new Error(ENDED);
      const socket = connect(nats.port, '127.0.0.1');
      const listens = await Promise.race([
        once(socket, 'connect').then(() => true),
        once(socket, 'error').then(() => false),
      ]).catch(() => false);
      socket.destroy();
      return listens;
    });
    return nats;
  }

  /** Sends messages, in order; returns when the server has them. */
  async publish(subject, messages) {
    const lines = messages.map((message) => `PUB ${subject} ${Buffer.byteLength(message)}\r\n${message}\r\n`);
    await this.#say(lines.join(''), /^PONG$/m);
  }

  /** Makes a stream of subjects. */
  async createStream(name, subjects) {
    const config = JSON.stringify({ name, subjects, retention: 'limits', storage: 'file', num_replicas: 1 });
    const ask = `SUB answer 1\r\nPUB $JS.API.STREAM.CREATE.${name} answer ${Buffer.byteLength(config)}\r\n${config}\r\n`;
    const answer = await this.#say(ask, /^\{.*\}$/m);
    if (answer.includes('"error"')) throw new Error(answer);
  }

  /** Everything the server says until it has said what is waited for. */
  async #say(text, until) {
    const socket = connect(this.port, '127.0.0.1');
    try {
      let said = '';
      socket.setEncoding('utf8').write(`CONNECT {"verbose":false,"pedantic":false}\r\n${text}PING\r\n`);
      for await (const chunk of socket) {
        said += chunk;
        if (said.includes('-ERR')) throw new Error(said);
        if (until.test(said.replaceAll('\r\n', '\n'))) return said;
      }
      throw new Error(`nats-server has closed the connection: ${said}`);
    } finally {
      socket.destroy();
    }
  }

  async stop() {
    if (this.process.exitCode === null) {
      this.process.kill('SIGKILL');
      await once(this.process, 'exit');
    }
    rmSync(this.dir, { recursive: true, force: true });
  }
}
