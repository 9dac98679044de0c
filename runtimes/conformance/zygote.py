"""Flint's side of a zygote's link: freezes it, hands descriptors to its clones, and speaks with each on a link of its own."""

import array
import json
import os
import socket
import struct
import tempfile

from peer import HEADER, NAMES, Frame, Peer, encode

PRIME = 1
SO_PASSCRED = getattr(socket, "SO_PASSCRED", 16)
SCM_CREDENTIALS = getattr(socket, "SCM_CREDENTIALS", 2)
CREDENTIALS = struct.Struct("iII")


class Zygote(Peer):
    """A shim that is started to be forked."""

    def __init__(self, argv, env=None, **kwargs):
        super().__init__(argv, dict(os.environ if env is None else env, FLINT_ZYGOTE="1"), **kwargs)
        self.clones = 0

    def warm_up(self, params=None, **head):
        return self.invoke(params, warmup=True, **head)

    def freeze(self, **options):
        """The report; or an AssertionError that shows the refusal."""
        self.send_freeze(**options)
        ack = self.expect("ACK")
        assert ack.call == 0, ack
        return ack.json()

    def send_freeze(self, **options):
        fields = {"calls": 20, "budgetMs": 60000, "annotate": False, "jit": None, "hugePages": False}
        fields.update(options)
        self.send("FREEZE", payload=json.dumps(fields).encode())

    def refusal(self, **options):
        self.send_freeze(**options)
        error = self.expect("ERROR")
        assert error.call == 0 and error.json()["kind"] == "snapshot", error
        return error.json()["message"]

    def clone(self, prime=False, restore=True):
        self.clones += 1
        clone = Clone(self, self.clones, prime, self.socket.gettimeout())
        if restore:
            clone.restore()
        return clone


class Clone(Peer):
    """One fork of a zygote."""

    def __init__(self, zygote, number, prime, timeout_s):
        ours, theirs = socket.socketpair()
        ours.settimeout(timeout_s)
        ours.setsockopt(socket.SOL_SOCKET, SO_PASSCRED, 1)
        self.socket, self.number, self.process, self.pid = ours, number, None, None
        self.buffer, self.last_call = bytearray(), 0
        self.tmp = tempfile.TemporaryDirectory(prefix="flint-clone-")
        pipes = {name: os.pipe() for name in ("stdout", "stderr")}
        tmp = os.open(self.tmp.name, os.O_RDONLY | os.O_DIRECTORY)
        handed = [theirs.fileno(), pipes["stdout"][1], pipes["stderr"][1], tmp]
        zygote.socket.sendmsg([encode("CLONE", number, bytes([PRIME if prime else 0]))],
                              [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", handed))])
        theirs.close()
        os.close(tmp)
        self.collect(pipes)
        self.hello = self._first_frame()
        assert self.hello["clone"] == number, self.hello

    def _first_frame(self):
        """HELLO, whose message carries the sender's process id."""
        data, ancillary, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(CREDENTIALS.size))
        assert data, f"the clone ended before HELLO; stderr: {self.stderr}"
        for level, kind, value in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, SCM_CREDENTIALS):
                self.pid = CREDENTIALS.unpack(value)[0]
        self.socket.setsockopt(socket.SOL_SOCKET, SO_PASSCRED, 0)
        length, kind, flags, _, call = HEADER.unpack(data[:12])
        assert NAMES[kind] == "HELLO", Frame(NAMES[kind], bool(flags), call, data[12:])
        assert len(data) == 12 + length, data
        return json.loads(data[12:])

    def restore(self, entropy=None, time_us=0, **more):
        self.send_restore(entropy, time_us, **more)
        ack = self.expect("ACK")
        assert ack.call == 0 and ack.payload == b"", ack

    def send_restore(self, entropy=None, time_us=0, **more):
        fields = {"entropy": (entropy or os.urandom(32)).hex(), "time": time_us, "instance": str(self.number), **more}
        self.send("RESTORE", payload=json.dumps(fields).encode())

    def end(self, timeout_s=60):
        """Waits until the clone has closed its output, which is what is left of its end here."""
        self.socket.close()
        return self.ended(timeout_s)

    def ended(self, timeout_s=60):
        for output in self.output.values():
            assert output.ended(timeout_s), "the clone keeps its output open"
        self.tmp.cleanup()

    close = end
