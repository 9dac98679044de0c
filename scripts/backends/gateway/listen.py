"""Listens at an address in a network namespace, and becomes another program with that socket as descriptor 3.

listen.py ADDRESS PORT NAMESPACE COMMAND…      NAMESPACE is a file, or empty for this one. The program runs outside of the namespace.
"""

import ctypes
import os
import socket
import sys

NEW_NET = 0x40000000  # CLONE_NEWNET


def enter(path):
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    if libc.setns(descriptor, NEW_NET) != 0:
        raise OSError(ctypes.get_errno(), f"cannot enter {path}")
    os.close(descriptor)


def main(address, port, namespace, *command):
    home = f"/proc/{os.getpid()}/fd/{os.open('/proc/self/ns/net', os.O_RDONLY | os.O_CLOEXEC)}"
    if namespace:
        enter(namespace)
    listener = socket.create_server((address, int(port)), backlog=1024)
    if namespace:
        enter(home)
    if listener.fileno() == 3:
        os.set_inheritable(3, True)
    else:
        os.dup2(listener.fileno(), 3)
    os.execvp(command[0], command)


main(*sys.argv[1:])
