"""What another process can see of a zygote and its clones. As the same user a process that is not dumpable shows little; as root, everything."""

import ctypes
import errno
import fcntl
import os
import platform
import struct
import termios
import time

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


def wait_for_bytes(socket, count, timeout_s=60):
    """Until so many bytes wait to be read."""
    end = time.monotonic() + timeout_s
    while struct.unpack("i", fcntl.ioctl(socket, termios.FIONREAD, b"\0" * 4))[0] < count:
        assert time.monotonic() < end, f"{count} bytes did not come"
        time.sleep(0.005)


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


PIDFD_GET_INFO = 0xC040FF0B  # _IOWR(0xFF, 11, 64 bytes), since Linux 6.13
PIDFD_INFO_EXIT = 1 << 3  # since Linux 6.15


def wait_status(pidfd):
    """How a process that is not our child has ended, as wait(2) tells it; None where the kernel does not say."""
    info = bytearray(64)
    struct.pack_into("Q", info, 0, PIDFD_INFO_EXIT)
    for _ in range(6000):
        try:
            fcntl.ioctl(pidfd, PIDFD_GET_INFO, info)
        except OSError as error:
            if error.errno in (errno.ENOTTY, errno.EINVAL):
                return None
            if error.errno != errno.ESRCH:
                raise
        else:
            if struct.unpack_from("Q", info)[0] & PIDFD_INFO_EXIT:
                return struct.unpack_from("i", info, 60)[0]
        time.sleep(0.01)
        struct.pack_into("Q", info, 0, PIDFD_INFO_EXIT)
    return None
