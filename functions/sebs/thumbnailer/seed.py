"""Puts the photographs of the samples into the bucket."""

import sys
from pathlib import Path

FUNCTIONS = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(FUNCTIONS / "clients"))
from s3 import Store  # noqa: E402

if __name__ == "__main__":
    store = Store()
    store.make_bucket()
    for photo in sorted((FUNCTIONS / "samples/photos").glob("*.[jp][pn]g")):
        store.put(f"input/{photo.name}", photo.read_bytes())
