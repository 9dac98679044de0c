"""Notes that the picture is being worked on."""

import couchdb
from steps import Step


def main(params):
    step = Step("handler", params)
    step.talk(couchdb.write, "image-log", params["image"], {"state": "in progress", "format": params["metadata"]["format"]})
    return step.answer()
