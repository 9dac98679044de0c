"""Does the thumbnail in the store show the photograph? Run it with the function's own Python and the store's variables."""

import io
import json
import sys
from pathlib import Path

from PIL import Image, ImageChops, ImageStat

FUNCTIONS = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(FUNCTIONS / "clients"))
from s3 import Store  # noqa: E402

TOLERANCE = 12

if __name__ == "__main__":
    said = json.load(sys.stdin)
    made = Image.open(io.BytesIO(Store().get(said["answer"]["key"])))
    if made.format != "JPEG" or max(made.size) > 200 or 200 not in made.size:
        sys.exit(f"the thumbnail is a {made.format} of {made.size}")
    photo = Image.open(FUNCTIONS / "samples/photos" / said["params"]["key"]).convert("RGB").resize(made.size, Image.Resampling.BOX)
    difference = max(ImageStat.Stat(ImageChops.difference(photo, made)).mean)
    if difference > TOLERANCE:
        sys.exit(f"the thumbnail differs from the photograph by {difference:.1f} of 255 on average")
