"""Gets a picture from the store, makes it fit in width x height, puts the thumbnail back as a JPEG."""

import io

from PIL import Image
from s3 import Store

store = None


def main(params):
    global store
    if store is None:
        store = Store()
    picture = Image.open(io.BytesIO(store.get(f"input/{params['key']}"))).convert("RGB")
    picture.thumbnail((params["width"], params["height"]))
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=85)
    key = f"output/resized-{params['key']}.jpg"
    store.put(key, out.getvalue())
    return {"key": key, "bytes": out.tell(), "width": picture.width, "height": picture.height}
