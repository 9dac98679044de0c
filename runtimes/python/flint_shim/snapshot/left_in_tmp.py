"""Copies the files that loading the code left in /tmp into each clone's own /tmp, so that it finds what a freshly started process would."""

import _io
import posix
import stat

from .descriptors import TMP
from .refusal import Refused

_ROOT = f"/proc/self/fd/{TMP}"
_MOST_BYTES = 1024 * 1024
_MOST_FILES = 256
_CACHES = ("/.cache", "/numba")
"""Caches, whose contents are in memory by then."""


class LeftInTmp:
    def __init__(self):
        self._paths = None
        self._kept = ()

    def look(self):
        """Lists the files once, after the code has been loaded and before its first call."""
        if self._paths is None:
            self._paths = _below()

    def take(self):
        """At the freeze: reads those that still exist."""
        self.look()
        kept, size, folders = [], 0, {""}
        for path in self._paths:
            if path.rpartition("/")[0] not in folders:
                continue  # a call has removed its directory or replaced it by a link
            try:
                status = posix.lstat(_ROOT + path)
                mode = stat.S_IMODE(status.st_mode)
                if stat.S_ISDIR(status.st_mode):
                    folders.add(path)
                    kept.append((path, mode, None))
                elif stat.S_ISLNK(status.st_mode):
                    kept.append((path, None, posix.readlink(_ROOT + path)))
                elif stat.S_ISREG(status.st_mode):
                    size += status.st_size
                    if size <= _MOST_BYTES:
                        with _io.FileIO(_ROOT + path) as file:
                            kept.append((path, mode, file.readall()))
            except FileNotFoundError:
                pass  # a call has removed it
        if size > _MOST_BYTES or len(self._paths) > _MOST_FILES:
            some = ", ".join(f"/tmp{path}" for path in self._paths[:3])
            raise Refused(f"loading the code leaves more in /tmp than the 1 MiB and {_MOST_FILES} files that each copy is given "
                          f"({some}{', …' if len(self._paths) > 3 else ''}): write it in flint.after_restore")
        self._kept = tuple(kept)

    def put(self):
        """In a clone: writes them."""
        for path, mode, content in self._kept:
            place = _ROOT + path
            if mode is None:
                posix.symlink(content, place)
            elif content is None:
                posix.mkdir(place)
            else:
                with _io.FileIO(place, "x") as file:
                    file.write(content)
        for path, mode, _ in reversed(self._kept):  # last, because a mode may forbid creating files in the directory
            if mode is not None:
                posix.chmod(_ROOT + path, mode)


def _below():
    """All paths below /tmp, directories before their contents; stops at one more than the limit."""
    found, folders = [], [""]
    while folders:
        folder = folders.pop()
        try:
            names = sorted(posix.listdir(_ROOT + folder))
        except OSError:
            continue
        for path in [f"{folder}/{name}" for name in names]:
            if path in _CACHES:
                continue
            found.append(path)
            if len(found) > _MOST_FILES:
                return found
            try:
                if stat.S_ISDIR(posix.lstat(_ROOT + path).st_mode):
                    folders.append(path)
            except OSError:
                pass  # removed meanwhile by a process that the code started
    return found
