"""Documents of a server with CouchDB's API: COUCHDB_URL."""

import http.client
import json
import os
from urllib.parse import quote, urlsplit


def request(method, path, document=None):
    """(status, the answer's JSON)."""
    place = urlsplit(os.environ["COUCHDB_URL"])
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=30)
    try:
        body = None if document is None else json.dumps(document)
        connection.request(method, path, body=body, headers={"content-type": "application/json"} if body else {})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def write(database, key, document):
    """Makes a document, or replaces it."""
    path = f"/{database}/{quote(key, safe='')}"
    for _ in range(20):
        status, known = request("GET", path)
        kept = {"_rev": known["_rev"]} if status == 200 else {}
        status, answer = request("PUT", path, {**document, **kept})
        if status == 201:
            return
        if status != 409:
            break
    raise RuntimeError(f"{path}: the store answered with {status}: {answer}")
