"""Encodes and decodes frames of the link: 12 bytes of header, then the payload. Performs no I/O of its own."""

import json
import struct

HEADER = struct.Struct(">IBBHI")
U32 = struct.Struct(">I")
MAX_PAYLOAD = 1024 * 1024
MAX_HEAD = 256 * 1024
MAX_MESSAGE = 64 * 1024
FIN = 1

HELLO, INIT, READY, FREEZE, CLONE, RESTORE, ACK, INVOKE, BODY, END, RESULT, LOG, ERROR = range(1, 14)

_BUFFER = 128 * 1024
_decode_json = json.JSONDecoder().decode


class ProtocolError(Exception):
    """The peer broke the protocol. `code`: length, kind, reserved, truncated, json or order."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def encode(kind, call, payload=b"", fin=False):
    return HEADER.pack(len(payload), kind, FIN if fin else 0, 0, call) + payload


class FrameReader:
    """Reads frames through `read_into(view) -> count` (0 at end of file), which fills a writable memoryview."""

    def __init__(self, read_into):
        self._read_into = read_into
        self._view = memoryview(bytearray(_BUFFER))
        self._start = 0
        self._end = 0
        self.rest = 0
        """The number of bytes of an incomplete frame at the end of the link."""

    def next(self):
        """The next frame as `(kind, fin, call, payload)`, or None at the end of the link. The caller may keep the payload."""
        while self._end - self._start < 12:
            if not self._fill():
                self.rest = self._end - self._start
                return None
        length, kind, flags, reserved, call = HEADER.unpack_from(self._view, self._start)
        if length > MAX_PAYLOAD:
            raise ProtocolError("length", f"a frame of {length} bytes exceeds {MAX_PAYLOAD}")
        if not HELLO <= kind <= ERROR:
            raise ProtocolError("kind", f"unknown frame kind {kind}")
        if flags > FIN or reserved:
            raise ProtocolError("reserved", "a reserved bit of a frame header is set")
        start = self._start + 12
        end = start + length
        if end <= self._end:
            payload = bytes(self._view[start:end])
            self._start = end
        else:
            payload = self._long_payload(start, length)
            if payload is None:
                return None
        return kind, flags, call, payload

    def put(self, data):
        """Inserts bytes as if they had been read; nothing may be unread."""
        self._start, self._end = 0, len(data)
        self._view[:self._end] = data

    def has_unread(self):
        return self._start < self._end

    def _fill(self):
        """Reads once and appends to the unread bytes, which are moved to the front when the end of the buffer is reached."""
        if self._start == self._end:
            self._start = self._end = 0
        elif self._end == _BUFFER:
            unread = bytes(self._view[self._start:self._end])
            self._view[:len(unread)] = unread
            self._start, self._end = 0, len(unread)
        count = self._read_into(self._view[self._end:])
        self._end += count
        return count

    def _long_payload(self, start, length):
        """Reads a payload that is not entirely in the buffer into memory of its own."""
        payload = bytearray(length)
        view = memoryview(payload)
        filled = self._end - start
        view[:filled] = self._view[start:self._end]
        self._start = self._end = 0
        while filled < length:
            count = self._read_into(view[filled:])
            if not count:
                self.rest = 12 + filled
                return None
            filled += count
        return payload


def failure(kind, message):
    """The payload of ERROR. A lone surrogate, which UTF-8 cannot encode, becomes U+FFFD."""
    message = message[:MAX_MESSAGE]
    try:
        message.encode()
    except UnicodeEncodeError:
        message = message.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return {"kind": kind, "message": message}


class BodyError(Exception):
    """The body of a request is not valid for its content type: the call fails, but the instance continues."""


def parse_object(payload):
    """Parses a JSON object that the protocol requires."""
    try:
        value = _decode_json(str(payload, "utf-8"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError("json", f"malformed JSON from the peer: {error}") from None
    if type(value) is not dict:
        raise ProtocolError("json", "the peer sent JSON that is not an object")
    return value


def parse_value(payload):
    """Parses the body of a request as a JSON value."""
    try:
        return _decode_json(str(payload, "utf-8"))
    except (ValueError, RecursionError) as error:
        raise BodyError(f"the request body is not JSON that Python can read: {error}") from None


def split_head(payload):
    """Splits the payload of INVOKE or RESULT into head (None when it has none) and body."""
    if len(payload) < 4:
        raise ProtocolError("truncated", "the payload is too short for a head length")
    (length,) = U32.unpack_from(payload)
    if length > MAX_HEAD:
        raise ProtocolError("length", f"a head of {length} bytes exceeds {MAX_HEAD}")
    end = 4 + length
    if end > len(payload):
        raise ProtocolError("truncated", "the head is longer than the payload")
    head = parse_object(payload[4:end]) if length else None
    return head, payload[end:]
