"""Gets a video from the store, makes it 640x480 with ffmpeg, puts the outcome back."""

import os
import re
import subprocess
import tempfile
import uuid

from imageio_ffmpeg import get_ffmpeg_exe
from s3 import Store

store = None


def main(params):
    global store
    if store is None:
        store = Store()
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        source, outcome = os.path.join(folder, "in.mp4"), os.path.join(folder, "out.mp4")
        with open(source, "wb") as file:
            file.write(store.get(f"videos/{params['filename']}"))
        transcode(source, outcome)
        with open(outcome, "rb") as file:
            data = file.read()
        key = f"out/{uuid.uuid4()}.mp4"
        store.put(key, data)
        return {"key": key, "bytes": len(data), **facts(outcome)}


def transcode(source, outcome):
    run("-i", source, "-vf", "scale=640:480,setsar=1", "-threads", "1", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-an", outcome)


def facts(path):
    """Size and frames of a video, by decoding all of it."""
    said = run("-i", path, "-f", "null", "-")
    width, height = re.search(r"Video: .*?, (\d+)x(\d+)", said).groups()
    return {"width": int(width), "height": int(height), "frames": int(re.findall(r"frame=\s*(\d+)", said)[-1])}


def run(*arguments):
    done = subprocess.run([get_ffmpeg_exe(), "-hide_banner", "-nostdin", "-y", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ffmpeg: {done.stderr[-500:]}")
    return done.stderr
