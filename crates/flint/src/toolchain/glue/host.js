// Globals that handlers expect and the engines lack.
import * as environments from 'wasi:cli/environment@0.2.0';
import * as stdins from 'wasi:cli/stdin@0.2.0';
import * as stdouts from 'wasi:cli/stdout@0.2.0';
import * as stderrs from 'wasi:cli/stderr@0.2.0';
import * as randoms from 'wasi:random/random@0.2.0';

// One engine exposes an interface's functions as the module's exports, the other on its default export.
const [environment, stdin, stdout, stderr, random] =
  [environments, stdins, stdouts, stderrs, randoms].map((module) => module.default ?? module);

const PIECE = 4096; // the most that one blocking write takes
const open = { stdout: () => stdout.getStdout(), stderr: () => stderr.getStderr() };

// One engine represents a WIT u64 as a BigInt, the other as a number.
const bytes = @BIGINT@ ? BigInt : Number;

export function writeAll(name, text) {
  const bytes = new TextEncoder().encode(text);
  const stream = open[name]();
  for (let at = 0; at < bytes.length; at += PIECE) stream.blockingWriteAndFlush(bytes.subarray(at, at + PIECE));
}

export function readAll() {
  const stream = stdin.getStdin();
  const pieces = [];
  for (;;) {
    try {
      pieces.push(Uint8Array.from(stream.blockingRead(bytes(65536))));
    } catch (end) {
      if ((end?.payload ?? end)?.tag === 'closed') break;
      throw end;
    }
  }
  const all = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  pieces.reduce((at, piece) => (all.set(piece, at), at + piece.length), 0);
  return new TextDecoder().decode(all);
}

/** What was decided when the snapshot was taken and has to be anew for every call. */
export function install() {
  for (const [key, value] of environment.getEnvironment()) process.env[key] = value;
  let left = [];
  Math.random = () => {
    if (left.length < 7) left = Array.from(random.getRandomBytes(bytes(448)));
    // 53 bits, as many as a number holds.
    return left.splice(0, 7).reduce((sum, byte, n) => sum * 256 + (n === 0 ? byte & 31 : byte), 0) / 2 ** 53;
  };
}

const shown = (value) => {
  if (typeof value === 'string') return value;
  if (value instanceof Error) return `${value}\n${value.stack ?? ''}`;
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
};
const log = (...values) => writeAll('stderr', `${values.map(shown).join(' ')}\n`);
globalThis.console = { log, info: log, warn: log, error: log, debug: log, trace: log };
globalThis.process ??= { env: {} };

globalThis.TextEncoder ??= class TextEncoder {
  encode(text = '') {
    const utf8 = unescape(encodeURIComponent(String(text).toWellFormed()));
    return Uint8Array.from(utf8, (char) => char.charCodeAt(0));
  }
};
globalThis.TextDecoder ??= class TextDecoder {
  decode(bytes = new Uint8Array()) {
    let text = '';
    for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
    try {
      return decodeURIComponent(escape(text));
    } catch {
      throw new TypeError('the bytes are not UTF-8');
    }
  }
};
