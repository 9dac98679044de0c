"""Programs that a function starts find /tmp: it is a link to a descriptor, which `subprocess` would close."""

import posix
import sys

from .descriptors import TMP


def keep_tmp():
    import _posixsubprocess

    fork_exec = _posixsubprocess.fork_exec

    def fork_exec_with_tmp(args, executables, close_fds, passed, *rest):
        if TMP not in passed and _is_open(TMP):
            passed = tuple(sorted((*passed, TMP)))
        return fork_exec(args, executables, close_fds, passed, *rest)

    _posixsubprocess.fork_exec = fork_exec_with_tmp
    if sys.version_info >= (3, 13):
        import subprocess

        subprocess._USE_POSIX_SPAWN = False  # it closes everything by POSIX_SPAWN_CLOSEFROM


def _is_open(fd):
    try:
        posix.fstat(fd)
    except OSError:
        return False
    return True
