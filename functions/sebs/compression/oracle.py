"""Are all files in the archive that is in the store, as they were? Run it with the store's variables."""

import io
import json
import sys
import zipfile
from pathlib import Path

from texts import text

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "clients"))
from s3 import Store  # noqa: E402

if __name__ == "__main__":
    said = json.load(sys.stdin)
    params, answer = said["params"], said["answer"]
    data = Store().get(answer["key"])
    if len(data) != answer["bytes"]:
        sys.exit(f"the archive has {len(data)} bytes, not {answer['bytes']}")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if len(archive.namelist()) != params["files"]:
            sys.exit(f"the archive holds {len(archive.namelist())} files, not {params['files']}")
        for number in range(params["files"]):
            if archive.read(f"{number}.txt") != text(params["key"], number):
                sys.exit(f"file {number} is not what it was")
