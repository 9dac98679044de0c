"""Puts the files of every size into the bucket."""

import sys
from pathlib import Path

from texts import SIZES, text

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "clients"))
from s3 import Store  # noqa: E402

if __name__ == "__main__":
    store = Store()
    store.make_bucket()
    for size, (count, _) in SIZES.items():
        for number in range(count):
            store.put(f"folder/{size}/{number}.txt", text(size, number))
