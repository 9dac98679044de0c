"""Is what the function has stored the video that it was asked for? Size, frames and likeness are found by ffmpeg here, whatever the answer says of them.
Standard input: {"size", "params", "answer"}. Run it with the function's own Python."""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from imageio_ffmpeg import get_ffmpeg_exe

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "clients"))
from s3 import Refused, Store  # noqa: E402

SIZE = ("640", "480")
# Never a digest: an encoder's bytes change with its release. The bound is that of SeBS.
LIKENESS = 0.98


def main():
    said = json.load(sys.stdin)
    store, answer = Store(), said["answer"]
    try:
        made = store.get(answer["key"])
    except Refused as error:
        sys.exit(f"there is no such object: {error}")
    if len(made) != answer["bytes"]:
        sys.exit(f"the object has {len(made)} bytes, not {answer['bytes']}")
    with tempfile.TemporaryDirectory() as folder:
        given, outcome = Path(folder, "given.mp4"), Path(folder, "outcome.mp4")
        given.write_bytes(store.get(f"videos/{said['params']['filename']}"))
        outcome.write_bytes(made)
        compare(given, outcome)


def compare(given, outcome):
    size, frames = facts(outcome)
    if size != SIZE:
        sys.exit(f"the object is a video of {' x '.join(size)} points")
    wanted = facts(given)[1]
    if frames != wanted:
        sys.exit(f"the object has {frames} frames, and the video that was given {wanted}")
    scaled = f"[1:v]scale={':'.join(SIZE)},setsar=1[given];[0:v][given]ssim"
    like = float(re.search(r"SSIM .*All:([0-9.]+)", ffmpeg("-i", outcome, "-i", given, "-lavfi", scaled))[1])
    if like < LIKENESS:
        sys.exit(f"the object is not like the video that was given: SSIM {like}")


def facts(path):
    """Size and frames, by decoding all of it."""
    told = ffmpeg("-i", path)
    return re.search(r"Video: .*?, (\d+)x(\d+)", told).groups(), int(re.findall(r"frame=\s*(\d+)", told)[-1])


def ffmpeg(*arguments):
    done = subprocess.run([get_ffmpeg_exe(), "-hide_banner", "-nostdin", *arguments, "-f", "null", "-"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"ffmpeg: {done.stderr[-300:]}")
    return done.stderr


main()
