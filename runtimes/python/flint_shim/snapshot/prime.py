"""Touches the pages that the shim's own path needs, before the call that will need them comes. Runs no user code."""

import json

from ..entry import Entry
from ..frame import FIN, HEADER, INVOKE, U32

_HEAD = {"activation": "0" * 32, "deadline": 0, "headers": [["content-type", "application/json"]], "method": "POST",
         "path": "/", "query": "", "transaction": "0"}


def _dummy():
    head = json.dumps(_HEAD).encode()
    payload = U32.pack(len(head)) + head + b'{"prime":[1,2.5,"x",null]}'
    return HEADER.pack(len(payload), INVOKE, FIN, 0, 1) + payload


_FRAME = _dummy()


def prime(instance):
    """One call through the instance: received from memory, answered to /dev/null (descriptor 0)."""
    entry = instance.entry
    instance.entry = Entry(_echo)
    try:
        instance.link.begin_rehearsal(_FRAME)
        instance.serve_one()
    finally:
        instance.link.end_rehearsal()
        instance.entry = entry
        instance.environment.apply({})


def _echo(params):
    return params
