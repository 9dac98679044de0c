"""Puts files/file-0.dat … file-3.dat, 4 MiB each, into the bucket: the stream of SHAKE-128 of the file's name."""

import hashlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "clients"))
from s3 import Store  # noqa: E402

BYTES = 4 << 20

if __name__ == "__main__":
    store = Store()
    store.make_bucket()
    for seed in range(4):
        store.put(f"files/file-{seed}.dat", hashlib.shake_128(f"file-{seed}.dat".encode()).digest(BYTES))
