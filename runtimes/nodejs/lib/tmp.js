'use strict';
// Corrects paths below /tmp. In a sandbox that is forked, /tmp is a link to a file system without a mount point (descriptor 200), for which
// the kernel returns paths from its root, `/x` for `/tmp/x`, or none. The functions that return such paths are replaced before user code is
// loaded.

const fs = require('fs');

const { closeSync, fstatSync, openSync, readlinkSync, statSync } = fs;
const { nextTick } = process;
const TMP = 200;
const O_PATH = 0o10000000;
const DELETED = ' (deleted)';

/** The path that a link in /proc refers to, if it is below /tmp; otherwise null. */
function named(link) {
  try {
    if (statSync(link).dev !== fstatSync(TMP).dev) return null;
    const below = readlinkSync(link);
    if (below.endsWith(DELETED)) return null;
    return below === '/' ? '/tmp' : `/tmp${below}`;
  } catch {
    return null;
  }
}

/** The path that `file` resolves to, if it is below /tmp; null otherwise, or if it does not exist. */
function resolved(file) {
  let fd = -1;
  try {
    fd = openSync(file, O_PATH);
    return named(`/proc/self/fd/${fd}`);
  } catch {
    return null; // Node.js will report the error
  } finally {
    if (fd >= 0) closeSync(fd);
  }
}

/** Encodes a path as the caller asked: as text or bytes. */
function encoded(found, options) {
  const encoding = typeof options === 'string' ? options : options && options.encoding;
  if (!encoding || encoding === 'utf8' || encoding === 'utf-8') return found;
  const bytes = Buffer.from(found);
  return encoding === 'buffer' ? bytes : bytes.toString(encoding);
}

function synchronous(original) {
  return function realpathSync(file, options) {
    const found = resolved(file);
    return found === null ? original(file, options) : encoded(found, options);
  };
}

function withCallback(original) {
  return function realpath(file, options, callback) {
    const done = typeof options === 'function' ? options : callback;
    const found = typeof done === 'function' ? resolved(file) : null;
    if (found === null) original(file, options, callback);
    else nextTick(done, null, encoded(found, options));
  };
}

function install() {
  const { cwd } = process;
  process.cwd = function currentDirectory() {
    try {
      return cwd();
    } catch (error) {
      const found = error.code === 'ENOENT' ? named('/proc/self/cwd') : null;
      if (found === null) throw error;
      return found;
    }
  };
  for (const [name, wrapped] of [['realpathSync', synchronous], ['realpath', withCallback]]) {
    const original = fs[name];
    fs[name] = wrapped(original);
    fs[name].native = wrapped(original.native);
  }
  const { realpath } = fs.promises;
  fs.promises.realpath = async (file, options) => {
    const found = resolved(file);
    return found === null ? realpath(file, options) : encoded(found, options);
  };
}

module.exports = { install };
