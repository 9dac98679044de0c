"""Puts one photograph in three sizes into the bucket, with what a camera would have written, and makes the databases. Run it with the
function's own Python."""

import io
import sys
from pathlib import Path

from PIL import Image

FUNCTIONS = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(FUNCTIONS / "clients"), str(Path(__file__).parent / "python")]
import couchdb  # noqa: E402
from s3 import Store  # noqa: E402

SIZES = {"test.jpg": (427, 640), "small.jpg": (1488, 1984), "large.jpg": (2976, 3968)}
MAKE, MODEL, TIME, GPS = 0x010F, 0x0110, 0x0132, 0x8825


def account():
    """EXIF of a camera that does not exist, at a place in the sea."""
    exif = Image.Exif()
    exif[MAKE], exif[MODEL], exif[TIME] = "Flint", "Workload 1", "2020:10:12 12:34:56"
    exif.get_ifd(GPS).update({1: "N", 2: (10.0, 20.0, 30.0), 3: "W", 4: (40.0, 50.0, 15.0)})
    return exif


if __name__ == "__main__":
    store = Store()
    store.make_bucket()
    photo = Image.open(FUNCTIONS / "samples/photos/rocket.jpg").transpose(Image.Transpose.ROTATE_90)
    for name, size in SIZES.items():
        out = io.BytesIO()
        photo.resize(size, Image.Resampling.BICUBIC).save(out, "JPEG", quality=92, exif=account())
        store.put(f"images/{name}", out.getvalue())
    for database in ("image-log", "image-metadata"):
        status, answer = couchdb.request("PUT", f"/{database}")
        if status not in (201, 412):
            sys.exit(f"{database}: the store answered with {status}: {answer}")
