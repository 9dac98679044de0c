'use strict';
// Files that loading the code leaves in /tmp. Each clone has an empty /tmp of its own, into which they are copied, so that it finds what a
// fresh process would.

const { chmodSync, lstatSync, mkdirSync, readFileSync, readdirSync, readlinkSync, symlinkSync, writeFileSync } = require('fs');

const ROOT = '/proc/self/fd/200';
/** Names are treated as bytes, one per character. */
const BYTES = 'latin1';
const MOST_BYTES = 1024 * 1024;
const MOST_FILES = 256;
/** Directories that only make loading faster; their content is in memory by then. */
const CACHES = ['/.cache', '/node-compile-cache'];

class LeftInTmp {
  constructor() {
    this.paths = null;
    this.kept = [];
  }

  /** Must be called when the code has been loaded, before its first call. */
  look() {
    if (this.paths === null) this.paths = below();
  }

  /** At the freeze: the files that still exist, or a text if they are too much. */
  found() {
    this.look();
    const found = [];
    const folders = new Set(['']);
    let size = 0;
    for (const path of this.paths) {
      if (!folders.has(path.slice(0, path.lastIndexOf('/')))) continue; // a call has removed its directory or replaced it with a link
      const place = at(path);
      const status = lstatSync(place, { throwIfNoEntry: false });
      if (status === undefined) continue; // a call has removed it
      const mode = status.mode & 0o7777;
      if (status.isDirectory()) {
        folders.add(path);
        found.push({ path, mode });
      } else if (status.isSymbolicLink()) {
        found.push({ path, target: readlinkSync(place, 'buffer') });
      } else if (status.isFile()) {
        size += status.size;
        if (size <= MOST_BYTES) found.push({ path, mode, content: readFileSync(place) });
      }
    }
    if (size <= MOST_BYTES && this.paths.length <= MOST_FILES) return found;
    const some = this.paths.slice(0, 3).map((path) => `/tmp${Buffer.from(path, BYTES)}`).join(', ');
    return `loading the code leaves more in /tmp than the 1 MiB and ${MOST_FILES} files that each copy is given (${some}${this.paths.length > 3 ? ', …' : ''}): write it in flint.afterRestore`;
  }

  keep(found) {
    this.kept.push(...found); // the same array, on which optimised code depends
  }

  /** In a clone: writes the files. */
  put() {
    for (const { path, content, target } of this.kept) {
      const place = at(path);
      if (target !== undefined) symlinkSync(target, place);
      else if (content === undefined) mkdirSync(place);
      else writeFileSync(place, content, { flag: 'wx' });
    }
    for (let last = this.kept.length - 1; last >= 0; last--) { // last, since some of the modes make a directory read-only
      const { path, mode, target } = this.kept[last];
      if (target === undefined) chmodSync(at(path), mode);
    }
  }
}

function at(path) {
  return Buffer.from(ROOT + path, BYTES);
}

/** The paths of everything in it, directories before their contents; stops one beyond the limit. */
function below() {
  const found = [];
  const folders = [''];
  while (folders.length > 0) {
    const folder = folders.pop();
    let entries;
    try {
      entries = readdirSync(at(folder), { encoding: 'buffer', withFileTypes: true });
    } catch {
      continue;
    }
    for (const entry of entries) {
      const path = `${folder}/${entry.name.toString(BYTES)}`;
      if (CACHES.includes(path)) continue;
      found.push(path);
      if (found.length > MOST_FILES) return found;
      if (entry.isDirectory()) folders.push(path);
    }
  }
  return found;
}

module.exports = { LeftInTmp };
