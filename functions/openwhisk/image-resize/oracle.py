"""Is the answer's PNG as large as asked, and does it show the input? Standard input: {"size", "params", "answer"}."""

import base64
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import png  # noqa: E402

CELLS = 6
TOLERANCE = 10


def main():
    said = json.load(sys.stdin)
    params = said["params"]
    given = png.read(base64.b64decode(params["img"]))
    made = png.read(base64.b64decode(said["answer"]["image"]))
    if (made.width, made.height) != (params["w"], params["h"]):
        sys.exit(f"the picture has {made.width} x {made.height} points, not {params['w']} x {params['h']}")
    if made.channels != given.channels:
        sys.exit(f"the picture has {made.channels} channels, not {given.channels}")
    for number, (one, other) in enumerate(zip(png.grid(given, CELLS), png.grid(made, CELLS))):
        if any(abs(a - b) > TOLERANCE for a, b in zip(one, other)):
            sys.exit(f"cell {number} of the picture has the mean {other}, that of the input has {one}")


main()
