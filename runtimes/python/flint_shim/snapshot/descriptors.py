"""The open files of a zygote and its clones: a clone shares none with its zygote but /dev/null."""

import fcntl
import posix
import stat

from . import native

TMP = 200
"""Each clone's own /tmp: in the sandbox, /tmp is a symbolic link to /proc/self/fd/200."""

_WHAT_TO_DO = "close it in flint.before_snapshot and open it again in flint.after_restore"
_dup2 = posix.dup2
_SEEK_SET, _SEEK_CUR = 0, 1


class Descriptors:
    def __init__(self, link):
        self._link = link
        self._standing = (0, 1, 2, link, TMP)
        self._reopened = []
        self._kept = sorted(self._standing)
        self._starts_in_tmp = False
        self.placed = False
        """In a clone: whether the link's descriptor is the clone's own."""

    def obstacles(self):
        """Describes the open files that a clone can neither share nor reopen; records those that it can reopen."""
        self._reopened, found = [], []
        tmp = _device_of(TMP)
        for fd in _open_descriptors():
            if fd in self._standing:
                continue
            try:
                target, status = posix.readlink(f"/proc/self/fd/{fd}"), posix.fstat(fd)
            except OSError:
                continue  # the descriptor by which the list itself was read
            reason = _obstacle(target, status, fcntl.fcntl(fd, fcntl.F_GETFL), tmp)
            if reason is None:
                self._reopened.append((fd, fcntl.fcntl(fd, fcntl.F_GETFL) & ~(posix.O_CREAT | posix.O_TRUNC | posix.O_EXCL), posix.get_inheritable(fd)))
            else:
                found.append(f"{reason} (descriptor {fd}): {_WHAT_TO_DO}")
        return found

    def seal(self):
        """Prepares the zygote's own descriptors. Keeps the fixed numbers occupied, so that descriptors received with CLONE do not get
        them."""
        null = posix.open("/dev/null", posix.O_RDWR | posix.O_CLOEXEC)
        _dup2(null, 0)
        for fd in (1, 2, TMP):
            if _device_of(fd) is None:
                _dup2(null, fd)
        posix.close(null)
        self._starts_in_tmp = posix.stat(".").st_dev == _device_of(TMP)
        self._kept = sorted(self._standing + tuple(fd for fd, _, _ in self._reopened))

    def are_more(self):
        """Whether a clone needs more than the descriptors that come with CLONE."""
        return bool(self._reopened) or self._starts_in_tmp

    def place(self, received):
        """In a clone: moves link, stdout, stderr and /tmp to their fixed numbers, reopens files that are only read, and closes the rest."""
        link, out, err, tmp = received
        _dup2(link, self._link, inheritable=False)
        self.placed = True
        _dup2(out, 1)
        _dup2(err, 2)
        _dup2(tmp, TMP)
        for fd, flags, inheritable in self._reopened:
            anew = posix.open(f"/proc/self/fd/{fd}", flags | posix.O_CLOEXEC)
            if not flags & posix.O_DIRECTORY and stat.S_ISREG(posix.fstat(fd).st_mode):
                posix.lseek(anew, posix.lseek(fd, 0, _SEEK_CUR), _SEEK_SET)
            _dup2(anew, fd, inheritable=inheritable)
        if self._starts_in_tmp:
            posix.chdir(f"/proc/self/fd/{TMP}")
        native.close_all_but(self._kept)


def _obstacle(target, status, flags, tmp):
    """Why a clone cannot reopen it, or None."""
    mode, written = status.st_mode, flags & posix.O_ACCMODE != posix.O_RDONLY
    if stat.S_ISSOCK(mode):
        return "an open socket"
    if stat.S_ISFIFO(mode):
        return "an open pipe"
    if stat.S_ISCHR(mode) and target in ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"):
        return None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or target.startswith(("anon_inode:", "/memfd:")):
        return f"an open {target.split('/')[1].split(' ')[0] if target.startswith('/') else target}"
    if written:
        return f"the file {target}, open for writing"
    if status.st_dev == tmp:
        return f"the file {target}, which no clone has in its /tmp"
    return None


def _open_descriptors():
    return sorted(int(name) for name in posix.listdir("/proc/self/fd"))


def _device_of(fd):
    """The device number of a descriptor's file system; None if the descriptor is closed."""
    try:
        return posix.fstat(fd).st_dev
    except OSError:
        return None
