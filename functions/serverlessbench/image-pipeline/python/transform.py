"""Turns what the camera wrote into what is kept."""

from steps import Step

MIME = {"JPEG": "image/jpeg", "PNG": "image/png"}


def main(params):
    step = Step("transform", params)
    raw = step.params.pop("raw")
    camera, place = raw["camera"], raw["place"]
    metadata = {
        "creationTime": camera.get("DateTime"),
        "make": camera.get("Make"),
        "model": camera.get("Model"),
        "geo": {
            "latitude": {"D": place["GPSLatitude"][0], "M": place["GPSLatitude"][1], "S": place["GPSLatitude"][2], "direction": place["GPSLatitudeRef"]},
            "longitude": {"D": place["GPSLongitude"][0], "M": place["GPSLongitude"][1], "S": place["GPSLongitude"][2], "direction": place["GPSLongitudeRef"]},
        } if "GPSLatitude" in place else None,
        "dimensions": {"width": raw["width"], "height": raw["height"]},
        "fileSize": raw["bytes"],
        "format": MIME.get(raw["format"], "application/octet-stream"),
    }
    return step.answer(metadata=metadata)
