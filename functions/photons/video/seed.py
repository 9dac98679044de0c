"""Puts the videos into the bucket: test pictures that ffmpeg itself makes. Run it with the function's own Python."""

import subprocess
import sys
import tempfile
from pathlib import Path

from imageio_ffmpeg import get_ffmpeg_exe

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "clients"))
from s3 import Store  # noqa: E402

# Frames are counted by the oracle: rate x duration.
VIDEOS = {
    "test.mp4": ["testsrc2=size=320x240:rate=10:duration=1", "30"],
    "small.mp4": ["testsrc2=size=854x480:rate=25:duration=2", "33"],
    "large.mp4": ["testsrc2=size=1280x720:rate=25:duration=4", "30"],
}

if __name__ == "__main__":
    store = Store()
    store.make_bucket()
    with tempfile.TemporaryDirectory() as folder:
        for name, (picture, quality) in VIDEOS.items():
            path = Path(folder, name)
            subprocess.run(
                [get_ffmpeg_exe(), "-loglevel", "error", "-nostdin", "-y", "-f", "lavfi", "-i", picture,
                 "-c:v", "libx264", "-threads", "1", "-crf", quality, "-pix_fmt", "yuv420p", path],
                check=True,
            )
            store.put(f"videos/{name}", path.read_bytes())
