"""Is the document in the store what the answer says, and does the thumbnail in the store show the photograph? Run it with the function's own
Python."""

import io
import json
import sys
from pathlib import Path

from PIL import Image, ImageChops, ImageStat

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "clients"), str(Path(__file__).parent / "python")]
import couchdb  # noqa: E402
from s3 import Store  # noqa: E402

TOLERANCE = 12

if __name__ == "__main__":
    said = json.load(sys.stdin)
    answer, image = said["answer"], said["params"]["image"]
    status, document = couchdb.request("GET", f"/image-metadata/{image}")
    if status != 200 or document["metadata"] != answer["metadata"]:
        sys.exit(f"the document of {image} is not what the answer has: status {status}")
    store, thumbnail = Store(), answer["thumbnail"]
    given = store.get(f"images/{image}")
    if answer["metadata"]["fileSize"] != len(given):
        sys.exit(f"the photograph has {len(given)} bytes, not {answer['metadata']['fileSize']}")
    made = Image.open(io.BytesIO(store.get(thumbnail["key"])))
    if made.format != "JPEG" or list(made.size) != [thumbnail["width"], thumbnail["height"]]:
        sys.exit(f"the thumbnail in the store is a {made.format} of {made.size}")
    photo = Image.open(io.BytesIO(given)).convert("RGB").resize(made.size, Image.Resampling.BOX)
    difference = max(ImageStat.Stat(ImageChops.difference(photo, made)).mean)
    if difference > TOLERANCE:
        sys.exit(f"the thumbnail differs from the photograph by {difference:.1f} of 255 on average")
