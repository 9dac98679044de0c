"""Resolves paths below /tmp. In a sandbox that is forked, /tmp is a link to a file system that is not mounted anywhere (descriptor TMP),
so the kernel reports paths relative to its root, `/x` for `/tmp/x`, or none at all. The functions that depend on such paths are
replaced before user code is loaded."""

import importlib.util
import os
import posix
import sys

from .descriptors import TMP

_DELETED = " (deleted)"
_getcwd, _realpath = os.getcwd, os.path.realpath


def install():
    os.getcwd, os.getcwdb = getcwd, lambda: os.fsencode(getcwd())
    os.path.realpath = realpath
    sys.meta_path.insert(0, _Sqlite())


def getcwd():
    """os.getcwd that also works below /tmp."""
    try:
        return _getcwd()
    except FileNotFoundError:
        found = _named("/proc/self/cwd")
        if found is None:
            raise
        return found


def realpath(filename, **options):
    """os.path.realpath that also works below /tmp."""
    path = os.fspath(filename)
    strict = options.get("strict", False)
    # Releases since June 2025 have a third value beside the two, which tarfile gives.
    found = _resolved(os.fsdecode(path), bool(strict) and strict is not getattr(os.path, "ALLOW_MISSING", None))
    if found is None:
        return _realpath(filename, **options)
    return os.fsencode(found) if isinstance(path, bytes) else found


def _resolved(path, strict):
    """The resolved path if it is below /tmp, otherwise None. Unless `strict`, its last components need not exist."""
    try:
        fd = posix.open(path, posix.O_PATH | posix.O_CLOEXEC)
    except FileNotFoundError:
        head, tail = os.path.split(path)
        if strict or tail in ("", ".", "..") or os.path.islink(path):
            return None
        above = _resolved(head or ".", strict)
        return above and os.path.join(above, tail)
    except (OSError, ValueError):
        return None
    try:
        return _named(f"/proc/self/fd/{fd}")
    finally:
        posix.close(fd)


def _named(link):
    """The target of a link of /proc if it is below /tmp, otherwise None."""
    try:
        if posix.stat(link).st_dev != posix.fstat(TMP).st_dev:
            return None
        below = posix.readlink(link)
    except OSError:
        return None
    return None if below.endswith(_DELETED) else ("/tmp" + below).rstrip("/")


class _Sqlite:
    """An import hook for `_sqlite3`: SQLite resolves symbolic links itself and is told not to."""

    def find_spec(self, name, path=None, target=None):
        if name != "_sqlite3":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = getattr(spec and spec.loader, "exec_module", None)
        if load is not None and spec.origin and os.path.isabs(spec.origin):

            def exec_module(module):
                load(module)
                try:
                    _take_paths_as_they_are(spec.origin)
                except (ImportError, OSError, AttributeError):
                    pass  # an SQLite without that interface finds no file below /tmp

            spec.loader.exec_module = exec_module
        return spec


def _take_paths_as_they_are(extension):
    """Makes SQLite call stat instead of lstat, so that it sees no links (https://sqlite.org/c3ref/vfs.html, xSetSystemCall)."""
    import ctypes

    sqlite, libc = ctypes.CDLL(extension), ctypes.CDLL(None)
    sqlite.sqlite3_vfs_find.restype = ctypes.c_void_p
    vfs = sqlite.sqlite3_vfs_find(None)
    if not vfs or ctypes.c_int.from_address(vfs).value < 3:
        return
    # sqlite3_vfs: three ints, three pointers, twelve methods of version 1 and one of version 2 precede xSetSystemCall.
    pointer = ctypes.sizeof(ctypes.c_void_p)
    place = -(-3 * ctypes.sizeof(ctypes.c_int) // pointer) * pointer + 16 * pointer
    method = ctypes.c_void_p.from_address(vfs + place).value
    set_system_call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(method)
    set_system_call(vfs, b"lstat", ctypes.cast(libc.stat, ctypes.c_void_p))
