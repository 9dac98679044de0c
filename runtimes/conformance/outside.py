"""What another process can see of a zygote and its clones. As the same user a process that is not dumpable shows little; as root, everything."""

import ctypes
import os
import platform

KCMP = {"x86_64": 312, "aarch64": 272}[platform.machine()]
KCMP_FILE = 0
libc = ctypes.CDLL(None, use_errno=True)


def sees_everything():
    return os.geteuid() == 0


def status(pid):
    """The fields of /proc/PID/status."""
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def is_gone(pid):
    try:
        return status(pid)["State"].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return True


def descriptors(pid):
    return {int(fd): os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}


def shared_files(one, other):
    """The targets of descriptors that are the same open file in both processes."""
    theirs = descriptors(other)
    return sorted({target for fd, target in descriptors(one).items() for number in theirs
                   if libc.syscall(KCMP, one, other, KCMP_FILE, fd, number) == 0})


def shared_writable_mappings(one, other):
    """What both can write to: (device, inode) of the mappings."""
    return _writable_shared(one) & _writable_shared(other)


def _writable_shared(pid):
    with open(f"/proc/{pid}/maps") as maps:
        fields = [line.split() for line in maps]
    return {(field[3], field[4]) for field in fields if field[1][1] == "w" and field[1][3] == "s"}
