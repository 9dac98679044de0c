"""Makes a thumbnail that fits in 250 x 250, beside the picture in the store."""

import io

from PIL import Image
from s3 import Store
from steps import Step

LONGEST = 250


def main(params):
    step = Step("thumbnail", params)
    store = Store()
    picture = Image.open(io.BytesIO(step.talk(store.get, f"images/{params['image']}")))
    picture.thumbnail((LONGEST, LONGEST))
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=85)
    key = f"thumbnails/{params['image']}"
    step.talk(store.put, key, out.getvalue())
    return step.answer(thumbnail={"key": key, "width": picture.width, "height": picture.height, "bytes": out.tell()})
