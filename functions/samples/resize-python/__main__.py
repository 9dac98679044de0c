"""Makes a thumbnail of the JPEG or PNG picture in the request body.

request   the picture; query `max` = longest side of the thumbnail in pixels (default 128)
response  the thumbnail, in the format of the picture; never larger than the picture
"""

import io
import json
from urllib.parse import parse_qs

from flint import Response
from PIL import Image, UnidentifiedImageError

DEFAULT_MAX = 128
JPEG_QUALITY = 85


def main(params):
    try:
        longest = requested_max(params)
    except ValueError:
        return refuse("max must be a whole number of pixels, 1 or more")
    try:
        picture = Image.open(io.BytesIO(params.get("body") or b""), formats=["JPEG", "PNG"])
    except (UnidentifiedImageError, TypeError):
        return refuse("the request body is neither a JPEG nor a PNG picture")

    kind = picture.format
    picture.thumbnail((longest, longest), Image.Resampling.BOX, reducing_gap=None)
    out = io.BytesIO()
    picture.save(out, kind, quality=JPEG_QUALITY, icc_profile=picture.info.get("icc_profile"))
    return Response(out.getvalue(), content_type=Image.MIME[kind])


def requested_max(params):
    query = parse_qs(params.get("query") or "")
    longest = int(query.get("max", [params.get("max", DEFAULT_MAX)])[0])
    if longest < 1:
        raise ValueError(longest)
    return longest


def refuse(reason):
    return Response(json.dumps({"error": reason}), status=400, content_type="application/json")
