"""Is the document in the store what the answer says, and the thumbnail a picture of the right size? Run it with the function's own Python."""

import io
import json
import sys
from pathlib import Path

from PIL import Image

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "clients"), str(Path(__file__).parent / "python")]
import couchdb  # noqa: E402
from s3 import Store  # noqa: E402

if __name__ == "__main__":
    said = json.load(sys.stdin)
    answer, image = said["answer"], said["params"]["image"]
    status, document = couchdb.request("GET", f"/image-metadata/{image}")
    if status != 200 or document["metadata"] != answer["metadata"]:
        sys.exit(f"the document of {image} is not what the answer has: status {status}")
    thumbnail = answer["thumbnail"]
    made = Image.open(io.BytesIO(Store().get(thumbnail["key"])))
    if made.format != "JPEG" or list(made.size) != [thumbnail["width"], thumbnail["height"]]:
        sys.exit(f"the thumbnail in the store is a {made.format} of {made.size}")
