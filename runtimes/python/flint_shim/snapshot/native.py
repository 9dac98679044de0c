"""System calls for which Python has no function, and the native helper. Needs `ctypes`, so only zygotes import it."""

import ctypes
import errno
import os
import posix
import sys

# The same numbers on every architecture.
_CLOSE_RANGE, _LANDLOCK_CREATE_RULESET, _LANDLOCK_RESTRICT_SELF = 436, 444, 446
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_LANDLOCK_VERSION, _SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 1, 2
_SCOPES_SINCE = 6
MADV_HUGEPAGE, MADV_COLLAPSE = 14, 25
_PAGE = posix.sysconf("SC_PAGE_SIZE")
_HELPER = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "native", "zygote.so")


class _RulesetAttributes(ctypes.Structure):
    _fields_ = [("handled_access_fs", ctypes.c_uint64), ("handled_access_net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
_scopes = _RulesetAttributes(0, 0, _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS)
# Created once, so that a clone does not spend time on it.
_scopes_address, _scopes_size = ctypes.byref(_scopes), ctypes.c_size_t(ctypes.sizeof(_scopes))
_LAST = ctypes.c_uint(0xFFFFFFFF)


def _syscall(number, *args):
    result = _libc.syscall(ctypes.c_long(number), *args)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def hide():
    """Makes this process and its forks undumpable: no process of the same user may trace them or read their memory."""
    if _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) or _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def missing():
    """The kernel feature missing for isolating clones from each other, or None."""
    try:
        version = _syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(_LANDLOCK_VERSION))
    except OSError as error:
        return f"this kernel has no Landlock ({errno.errorcode.get(error.errno, error.errno)}); Linux 6.12 or newer is needed"
    if version < _SCOPES_SINCE:
        return f"this kernel's Landlock has version {version}, {_SCOPES_SINCE} is needed (Linux 6.12 or newer)"
    return None


def confine():
    """Begins a session, of which no other process's group is a part, and enters a new Landlock domain: no signals, ptrace or abstract Unix
    sockets to processes outside it."""
    posix.setsid()
    ruleset = _syscall(_LANDLOCK_CREATE_RULESET, _scopes_address, _scopes_size, ctypes.c_uint(0))
    try:
        _syscall(_LANDLOCK_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0))
    finally:
        posix.close(ruleset)


def close_all_but(kept):
    """Closes every descriptor not in `kept`, which is sorted."""
    first = 0
    for fd in kept:
        if fd > first:
            _syscall(_CLOSE_RANGE, ctypes.c_uint(first), ctypes.c_uint(fd - 1), ctypes.c_uint(0))
        first = fd + 1
    _syscall(_CLOSE_RANGE, ctypes.c_uint(first), _LAST, ctypes.c_uint(0))


def advise(address, length, advice):
    """madvise; returns whether it succeeded."""
    return _libc.madvise(address, length, advice) == 0


def resident_pages(address, length):
    """The number of resident pages of a mapping."""
    states = (ctypes.c_ubyte * (length // _PAGE))()
    if _libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(length), states) != 0:
        return 0
    return sum(state & 1 for state in states)


def trim():
    """Returns unused malloc memory to the kernel, where the C library can."""
    function = getattr(_libc, "malloc_trim", None)
    if function is not None:
        function(ctypes.c_size_t(0))


def helper():
    """The native helper's `serve`, or None if it was not built or the interpreter runs without its GIL.

    It is called with the GIL held and forks without the interpreter's knowledge: a frozen zygote has one thread, which holds no other
    lock.
    """
    path = os.environ.pop("FLINT_ZYGOTE_HELPER", _HELPER)
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    try:
        serve = ctypes.PyDLL(path).flint_serve
    except (OSError, AttributeError):
        return None
    serve.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    return serve
