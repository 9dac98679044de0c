"""A login: the user's row by name, and whether the password is the right one. The connection is kept, one for each thread: it serves a
single one."""

import os
import threading
import time
from urllib.parse import urlsplit

import pg8000.native
from flint import before_snapshot

kept = threading.local()


def connect():
    place = urlsplit(os.environ["POSTGRES_URL"])
    # Without TLS, as Node.js's client is: to load the host's certificates takes several times as long as to connect.
    return pg8000.native.Connection(
        place.username,
        host=place.hostname,
        port=place.port,
        password=place.password,
        database=place.path[1:],
        ssl_context=False,
    )


@before_snapshot
def close():
    # Clones cannot share the one of the warm-up: each opens its own in its first call.
    connection = kept.__dict__.pop("connection", None)
    if connection is not None:
        connection.close()


def main(params):
    started = time.perf_counter()
    connection = getattr(kept, "connection", None)
    if connection is None:
        connection = kept.connection = connect()
    try:
        rows = connection.run("SELECT password FROM users WHERE username = :name", name=params["username"])
    except pg8000.exceptions.InterfaceError:
        kept.connection = None
        raise
    right = len(rows) == 1 and rows[0][0] == params["password"]
    return {"succeeded": "true" if right else "false", "time": (time.perf_counter() - started) * 1000}
