"""Stores what is known of the picture as a document."""

import couchdb
from steps import Step


def main(params):
    step = Step("store", params)
    step.talk(couchdb.write, "image-metadata", params["image"], {"metadata": params["metadata"], "thumbnail": params["thumbnail"]})
    return step.answer()
