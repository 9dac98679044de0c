"""The types that a handler may return, and their encoding."""

import json

from .frame import MAX_HEAD, U32

NOT_JSON = "The action did not return a dictionary or array."
NO_HEAD = U32.pack(0)

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_encode_ascii = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class Response:
    """A reply that is not JSON: bytes, text, or an iterator of them, with status and headers."""

    def __init__(self, body=b"", status=200, headers=None, content_type=None):
        self.body = body
        self.status = status
        self.headers = dict(headers or {})
        self.content_type = content_type

    def head_fields(self):
        pairs = [[str(name).lower(), str(value)] for name, value in self.headers.items()]
        if not any(name == "content-type" for name, _ in pairs):
            default = "text/plain; charset=utf-8" if isinstance(self.body, str) else "application/octet-stream"
            pairs.append(["content-type", self.content_type or default])
        return {"status": int(self.status), "headers": pairs}


class ResultError(Exception):
    """The handler's result cannot be sent; the message is for the developer."""


def to_json(result):
    """The JSON bytes of a dict, list or tuple."""
    if not isinstance(result, (dict, list, tuple)):
        raise ResultError(f"{NOT_JSON} It returned a value of type {type(result).__name__}.")
    try:
        return _encode(result).encode()
    except UnicodeEncodeError:
        return _encode_ascii(result).encode()  # a lone surrogate: only a JSON escape can carry it
    except (TypeError, ValueError, RecursionError) as error:
        raise ResultError(f"{NOT_JSON} It cannot be written as JSON: {error}") from None


def as_response(result):
    """The Response for a result that is not sent as JSON, or None."""
    if isinstance(result, Response):
        return result
    if isinstance(result, (bytes, bytearray, memoryview)) or is_stream(result):
        return Response(result)
    return None


def is_stream(value):
    return hasattr(value, "__next__") or hasattr(value, "__anext__")


def head_bytes(fields):
    head = json.dumps(fields).encode()
    if len(head) > MAX_HEAD:
        raise ResultError(f"The head of the answer is too large: status and headers have {len(head)} bytes as JSON, and may have {MAX_HEAD}.")
    return U32.pack(len(head)) + head


def to_bytes(piece):
    if isinstance(piece, str):
        return piece.encode()
    if isinstance(piece, (bytes, bytearray)):
        return piece
    if isinstance(piece, memoryview):
        return piece.cast("B") if piece.contiguous else piece.tobytes()
    raise ResultError(f"A body must consist of str or bytes, not of {type(piece).__name__}.")
