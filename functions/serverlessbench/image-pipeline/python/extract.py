"""Reads the picture's own account of itself: format, size, and what the camera wrote (EXIF)."""

import io

from PIL import ExifTags, Image
from s3 import Store
from steps import Step


def main(params):
    step = Step("extract", params)
    data = step.talk(Store().get, f"images/{params['image']}")
    picture = Image.open(io.BytesIO(data))
    exif = picture.getexif()
    camera = {ExifTags.TAGS.get(tag, str(tag)): str(value) for tag, value in exif.items() if isinstance(value, (str, int))}
    place = {ExifTags.GPSTAGS.get(tag, str(tag)): plain(value) for tag, value in exif.get_ifd(ExifTags.IFD.GPSInfo).items()}
    return step.answer(
        raw={"format": picture.format, "width": picture.width, "height": picture.height, "bytes": len(data), "camera": camera, "place": place}
    )


def plain(value):
    if isinstance(value, tuple):
        return [float(part) for part in value]
    return value if isinstance(value, (str, int)) else float(value)
