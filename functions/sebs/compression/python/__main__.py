"""Gets all files of a folder from the store, packs them as a zip archive, puts that back."""

import io
import os
import tempfile
import zipfile

from s3 import Store

store = None


def main(params):
    global store
    if store is None:
        store = Store()
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        for number in range(params["files"]):
            with open(os.path.join(folder, f"{number}.txt"), "wb") as file:
                file.write(store.get(f"folder/{params['key']}/{number}.txt"))
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in sorted(os.listdir(folder)):
                archive.write(os.path.join(folder, name), name)
    key = f"archive/{params['key']}.zip"
    store.put(key, packed.getvalue())
    return {"key": key, "files": params["files"], "bytes": packed.tell()}
