"""Discards the output of replayed warm-up calls: their first run has been logged, and thousands of repetitions help nobody."""

import contextlib
import posix

from .. import stdio


@contextlib.contextmanager
def silenced():
    stdio.flush()
    null = posix.open("/dev/null", posix.O_WRONLY | posix.O_CLOEXEC)
    saved = [(fd, posix.dup(fd)) for fd in (1, 2)]
    try:
        for fd, _ in saved:
            posix.dup2(null, fd)
        yield
    finally:
        stdio.flush()
        for fd, copy in saved:
            posix.dup2(copy, fd)
            posix.close(copy)
        posix.close(null)
