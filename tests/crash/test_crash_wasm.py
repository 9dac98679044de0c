"""kill -9 of the server while it has WebAssembly compiled."""

import base64
import os
import re
import shutil
import tempfile
import threading
import unittest
from pathlib import Path

from flint_server import Server, assert_nothing_left, wait_for


def leb(number):
    out = bytearray()
    while True:
        low = number & 0x7F
        number >>= 7
        out.append(low | (0x80 if number else 0))
        if not number:
            return bytes(out)


def section(number, content):
    return bytes([number]) + leb(len(content)) + content


def module(body, locals_=0):
    """A module whose only function, exported as _start, has this body."""
    body = leb(1 if locals_ else 0) + (leb(locals_) + b"\x7f" if locals_ else b"") + body + b"\x0b"
    return (
        b"\0asm\x01\0\0\0"
        + section(1, b"\x01\x60\0\0")
        + section(3, b"\x01\0")
        + section(6, b"\x01\x7f\x01\x41\0\x0b")  # a global that may change
        + section(7, b"\x01\x06_start\0\0")
        + section(10, leb(1) + leb(len(body)) + body)
    )


def intricate(ifs=8000, locals_=100):
    """Takes a compiler minutes: every condition may change every variable."""
    changes = b"".join(b"\x20" + leb(n) + b"\x41\x01\x6a\x21" + leb(n) for n in range(locals_))
    return module((b"\x23\0\x04\x40" + changes + b"\x0b") * ifs, locals_)


def workshops(server):
    """The processes that compile for this server: other suites have some of their own."""
    return {pid for pid in filter(str.isdigit, os.listdir("/proc")) if compiles(pid) and str(server.process.pid) in ancestors(pid)}


def compiles(pid):
    try:
        return b"__wasm-workshop" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def ancestors(pid):
    found = []
    try:
        while pid != "0":
            pid = re.search(r"^PPid:\s+(\d+)$", Path(f"/proc/{pid}/status").read_text(), re.M)[1]
            found.append(pid)
    except OSError:
        pass  # it has ended meanwhile
    return found


class CrashWasm(unittest.TestCase):
    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="flint-crash-")
        self.addCleanup(shutil.rmtree, self.data, ignore_errors=True)
        self.server = Server(self.data, {"FLINT_WASM__COMPILE_TIMEOUT": "5min"})
        self.addCleanup(self.server.remove)
        self.addCleanup(self.server.stop)

    def deploy(self, name, code):
        fields = {"kind": "wasm", "contract": "wasi-command", "code": {"format": "executable", "base64": base64.b64encode(code).decode()}}
        return self.server.request("PUT", f"/v1/functions/{name}", fields)

    def test_kill_9_while_wasm_is_compiled_leaves_nothing(self):
        self.server.start()
        self.assertIn(self.deploy("quick", module(b"")).status, (200, 201))
        before = workshops(self.server)

        def slowly():
            try:
                self.deploy("slow", intricate())
            except OSError:
                pass  # the server goes away meanwhile

        deploying = threading.Thread(target=slowly, daemon=True)
        deploying.start()
        at_work = wait_for(lambda: workshops(self.server) - before, 60, "a compiler at work")
        self.server.kill()
        assert_nothing_left(self.server)
        self.assertEqual([pid for pid in at_work if compiles(pid)], [])
        deploying.join(60)
        compiled = sorted(path.name for path in Path(self.data, "wasm").iterdir() if path.is_file())
        self.assertEqual([name.rsplit(".", 1)[1] for name in compiled], ["cwasm", "sum"], "of the quick one only")
        self.server.start()
        self.assertEqual(self.deploy("another", module(b"\x01")).status, 201)
        self.server.stop()
        assert_nothing_left(self.server)


if __name__ == "__main__":
    unittest.main()
