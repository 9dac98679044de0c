"""Finds what prevents a process from being cloned by fork, with messages that say what to do about it."""

import posix
import signal
import sys
import time

_THREADS_END_WITHIN_S = 0.2
_LIBRARIES_WITH_THREADS = {"numpy": "numpy's BLAS", "scipy": "scipy's BLAS", "torch": "PyTorch", "numba": "numba"}


def obstacles():
    return [text for check in (_threads, _children, _mappings, _timers) for text in check()]


def _threads():
    """fork copies only the calling thread: whoever waits for another one in a clone waits for ever."""
    deadline = time.monotonic() + _THREADS_END_WITHIN_S
    others = _other_threads()
    while others and time.monotonic() < deadline:  # threads that were told to end take a moment
        time.sleep(0.005)
        others = _other_threads()
    if not others:
        return
    names = {}
    if "threading" in sys.modules:
        names = {thread.native_id: thread.name for thread in sys.modules["threading"].enumerate()}
    for task in others:
        if task in names:
            yield (f"the thread '{names[task]}' is running: "
                   "end it in flint.before_snapshot and start it again in flint.after_restore")
    unnamed = sum(task not in names for task in others)
    if unnamed:
        owner = next((text for module, text in _LIBRARIES_WITH_THREADS.items() if module in sys.modules), "native code")
        yield (f"{owner} keeps {unnamed} thread{'s' if unnamed > 1 else ''}: "
               "set OPENBLAS_NUM_THREADS=1, OMP_NUM_THREADS=1 and MKL_NUM_THREADS=1, or leave them unset")


def _other_threads():
    return [int(name) for name in posix.listdir("/proc/self/task") if int(name) != posix.getpid()]


def _children():
    """Reaps children that have ended; the others would not be children of a clone."""
    while True:
        try:
            ended = posix.waitid(posix.P_ALL, 0, posix.WEXITED | posix.WNOHANG | posix.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None:
            break
        posix.waitpid(ended.si_pid, 0)
    names = ", ".join(_living_children()) or "unknown"
    yield f"child processes are running ({names}): end them (also pools of multiprocessing) in flint.before_snapshot"


def _living_children():
    for name in posix.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                command, _, rest = file.read().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if int(rest.split()[1]) == posix.getpid():
            yield f"{command}, pid {name}"


def _mappings():
    """Shared writable mappings, through which clones would write to each other."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            fields = line.split(None, 5)
            if fields[1][1] == "w" and fields[1][3] == "s":
                name = fields[5].strip() if len(fields) > 5 else "anonymous"
                yield f"shared memory that can be written ({name}): release it in flint.before_snapshot"


def _timers():
    for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        if signal.getitimer(timer)[0]:
            yield "a timer is set (signal.alarm or signal.setitimer): clear it in flint.before_snapshot"
