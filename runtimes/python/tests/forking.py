"""Flint's side of `start: fork`: a zygote, and the clones that are asked of it."""

import array
import ctypes
import json
import os
import socket
import struct
import sys
import tempfile
import time

from support import PYTHON, ShimTestCase, native_helper

from peer import HEADER, KINDS, U32, Answer, Peer, with_head  # noqa: F401

ENTROPY = "ab" * 32


class Clone(Peer):
    """A forked copy, seen from its own link."""

    def __init__(self, zygote, number, flags=0, timeout_s=60):
        self.socket, link = socket.socketpair()
        self.socket.settimeout(timeout_s)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.tmp = tempfile.TemporaryDirectory()
        tmp = os.open(self.tmp.name, os.O_RDONLY | os.O_DIRECTORY)
        pipes = {"stdout": os.pipe(), "stderr": os.pipe()}
        theirs = [link.fileno(), pipes["stdout"][1], pipes["stderr"][1], tmp]
        frame = HEADER.pack(1, KINDS["CLONE"], 0, 0, number) + bytes([flags])
        zygote.socket.sendmsg([frame], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", theirs))])
        link.close()
        os.close(tmp)
        self.collect(pipes)
        self.buffer, self.last_call, self.pid, self.zygote = bytearray(), 0, None, zygote

    def hello(self):
        """Takes HELLO and with it the process id."""
        data, ancillary, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(12))
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                self.pid = struct.unpack("3i", content)[0]
        self.buffer += data
        return self.expect("HELLO").json()

    def restore(self, entropy=ENTROPY):
        self.send("RESTORE", payload=json.dumps({"entropy": entropy, "time": int(time.time() * 1e6), "instance": "i"}).encode())
        return self.receive()

    def wait(self, timeout_s=60):
        """Until the process has ended: its outputs are closed then."""
        for output in self.output.values():
            assert output.ended(timeout_s), "the clone has not ended"

    def close(self, timeout_s=60):
        self.socket.close()
        self.wait(timeout_s)
        self.tmp.cleanup()


class ForkTestCase(ShimTestCase):
    helper = native_helper()

    def zygote(self, source, name="function.py", env=None, python=sys.executable, init_env=None, files=None):
        """A zygote with its code loaded."""
        argv = [python, "-X", "utf8", "-s", str(PYTHON / "shim.py")]
        zygote = Peer(argv, env=dict(os.environ, FLINT_ZYGOTE="1", FLINT_ZYGOTE_HELPER=self.helper, **(env or {})))
        self.addCleanup(self._stop, zygote)
        hello = zygote.expect("HELLO").json()
        self.assertIs(hello["snapshot"], True, hello)
        code = self.directory({name: source, **(files or {})})
        zygote.init(os.path.join(code, name), env=init_env or {})
        zygote.expect("READY")
        zygote.clones = 0
        return zygote

    def freeze(self, zygote, **options):
        zygote.send("FREEZE", payload=json.dumps({"calls": 50, "budgetMs": 60_000, "annotate": True, "jit": None, "hugePages": True, **options}).encode())
        return zygote.receive()

    def frozen(self, source, warmup=({},), options=None, **how):
        """A zygote that has been warmed up and frozen; its report is in `report`."""
        zygote = self.zygote(source, **how)
        for params in warmup:
            zygote.invoke(params, warmup=True)
        answer = self.freeze(zygote, **(options or {}))
        self.assertEqual((answer.kind, answer.call), ("ACK", 0), answer)
        zygote.report = answer.json()
        return zygote

    def refused(self, source, warmup=({},), **how):
        """What the zygote says when it cannot be frozen. It ends with status 0 then."""
        zygote = self.zygote(source, **how)
        for params in warmup:
            zygote.invoke(params, warmup=True)
        answer = self.freeze(zygote)
        self.assertEqual((answer.kind, answer.call, answer.json().get("kind")), ("ERROR", 0, "snapshot"), answer)
        self.assertEqual(zygote.close(), 0)
        return answer.json()["message"]

    def clone(self, zygote, flags=0, restore=True):
        zygote.clones += 1
        clone = Clone(zygote, zygote.clones, flags)
        self.addCleanup(clone.close)
        hello = clone.hello()
        self.assertEqual(hello["clone"], zygote.clones)
        if restore:
            answer = clone.restore()
            self.assertEqual((answer.kind, answer.call, answer.payload), ("ACK", 0, b""), answer)
        return clone


def shares_descriptor(first, second, fd, fd_of_second):
    """Whether two processes have the same open file, not only the same path, behind two descriptors (kcmp)."""
    kcmp = {"x86_64": 312, "aarch64": 272}[os.uname().machine]
    result = ctypes.CDLL(None, use_errno=True).syscall(
        ctypes.c_long(kcmp), first, second, 0, ctypes.c_ulong(fd), ctypes.c_ulong(fd_of_second))
    if result < 0:
        raise OSError(ctypes.get_errno(), "kcmp")
    return result == 0
