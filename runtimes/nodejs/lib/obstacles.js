'use strict';
// Finds what prevents this process from being forked: threads, descriptors, handles, requests, timers and children that are not the
// runtime's own.

const fs = require('fs');

/** The state before user code is loaded. The thread pool has been started by then, so its threads are known. */
class Baseline {
  constructor() {
    this.threads = new Set(list('/proc/self/task'));
    this.descriptors = descriptors();
    this.handles = new Set(process._getActiveHandles());
  }

  /** One sentence for each obstacle, with the remedy. */
  obstacles() {
    return [...this.threadsInTheWay(), ...this.handlesInTheWay(), ...this.descriptorsInTheWay(), ...timersInTheWay(), ...childrenInTheWay()];
  }

  threadsInTheWay() {
    const extra = list('/proc/self/task').filter((thread) => !this.threads.has(thread));
    return extra.length === 0 ? [] : [`${count(extra.length, 'extra thread')} (a worker or a native addon): end them in flint.beforeSnapshot`];
  }

  handlesInTheWay() {
    const extra = process._getActiveHandles().filter((handle) => !this.handles.has(handle));
    const requests = process._getActiveRequests().length;
    const found = extra.length === 0 ? [] : [`open ${names(extra)}: close them in flint.beforeSnapshot, open them again in flint.afterRestore`];
    if (requests > 0) found.push(`${count(requests, 'unfinished request')} to the file system or the network: await them`);
    return found;
  }

  descriptorsInTheWay() {
    const extra = [];
    for (const [fd, target] of descriptors()) {
      if (this.descriptors.get(fd) !== target) extra.push(`${fd} (${target})`);
    }
    return extra.length === 0 ? [] : [`open file descriptors ${extra.slice(0, 5).join(', ')}: close them in flint.beforeSnapshot`];
  }
}

function timersInTheWay() {
  const resources = typeof process.getActiveResourcesInfo === 'function' ? process.getActiveResourcesInfo() : [];
  const timers = resources.filter((name) => name === 'Timeout').length;
  return timers === 0 ? [] : [`${count(timers, 'running timer')}: clear or unref() them`];
}

function childrenInTheWay() {
  const children = list('/proc/self/task').flatMap((thread) => read(`/proc/self/task/${thread}/children`).split(' ').filter(Boolean));
  return children.length === 0 ? [] : [`${count(children.length, 'child process', 'child processes')} still running: end them in flint.beforeSnapshot`];
}

function descriptors() {
  const found = new Map();
  for (const fd of list('/proc/self/fd')) {
    try {
      found.set(fd, fs.readlinkSync(`/proc/self/fd/${fd}`));
    } catch {
      // the descriptor by which the list itself was read
    }
  }
  return found;
}

function names(objects) {
  const counts = new Map();
  for (const object of objects) {
    const name = (object && object.constructor && object.constructor.name) || 'handle';
    counts.set(name, (counts.get(name) || 0) + 1);
  }
  return [...counts].map(([name, number]) => (number === 1 ? name : `${name} (${number})`)).join(', ');
}

function count(number, one, many = `${one}s`) {
  return number === 1 ? `1 ${one}` : `${number} ${many}`;
}

function list(folder) {
  try {
    return fs.readdirSync(folder);
  } catch {
    return [];
  }
}

function read(file) {
  try {
    return fs.readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}

module.exports = { Baseline };
