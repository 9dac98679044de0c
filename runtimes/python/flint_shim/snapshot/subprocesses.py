"""Keeps /tmp usable in programs that a function starts: it is a link to a descriptor, which `subprocess` would close."""

import os
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
    if hasattr(sys.modules.get("subprocess"), "_fork_exec"):  # imported already, by a .pth file
        sys.modules["subprocess"]._fork_exec = fork_exec_with_tmp
    if hasattr(posix, "POSIX_SPAWN_CLOSEFROM"):  # 3.13 and later
        os.posix_spawn = _posix_spawn_with_tmp


def _posix_spawn_with_tmp(path, argv, env, *, file_actions=(), **options):
    actions = []
    for action in file_actions or ():
        if action[0] == posix.POSIX_SPAWN_CLOSEFROM and action[1] <= TMP:
            actions += [(posix.POSIX_SPAWN_CLOSE, fd) for fd in range(action[1], TMP)]
            action = (posix.POSIX_SPAWN_CLOSEFROM, TMP + 1)
        actions.append(action)
    return posix.posix_spawn(path, argv, env, file_actions=actions, **options)


def _is_open(fd):
    try:
        posix.fstat(fd)
    except OSError:
        return False
    return True
