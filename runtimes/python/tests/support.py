"""Shared by the tests: a shim under the interpreter that runs them."""

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

PYTHON = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(PYTHON), str(PYTHON.parent / "conformance")]

from peer import Peer  # noqa: E402

os.environ.pop("PYTHONUNBUFFERED", None)  # Flint sets nothing like it, and it changes what stays in a buffer


@functools.cache
def native_helper():
    """The path of the zygote's native helper, built once; it does not exist where there is no C compiler."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    path = Path(folder.name, "zygote.so")
    if shutil.which(os.environ.get("CC", "cc")):
        subprocess.run(["sh", str(PYTHON / "native" / "build.sh"), str(path)], check=True)
    return str(path)


class ShimTestCase(unittest.TestCase):
    def directory(self, files):
        """A directory with these files, removed after the test."""
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        for name, text in files.items():
            path = Path(scratch.name, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        return scratch.name

    def shim(self):
        peer = Peer([sys.executable, "-X", "utf8", "-s", str(PYTHON / "shim.py")])
        self.addCleanup(self._stop, peer)
        return peer

    @staticmethod
    def _stop(peer):
        peer.socket.close()
        peer.process.kill()
        peer.wait()

    def started(self, source, main="main", name="function.py"):
        """A shim that has loaded `source`."""
        peer = self.shim()
        peer.start(Path(self.directory({name: source}), name), main)
        return peer

    def load_error(self, code, main="main"):
        peer = self.shim()
        peer.expect("HELLO")
        peer.init(code, main)
        error = peer.expect("ERROR")
        self.assertEqual((error.call, error.json()["kind"], peer.wait()), (0, "developer", 1))
        message = error.json()["message"]
        self.assertTrue(message.startswith("Initialization has failed due to: "), message)
        return message
