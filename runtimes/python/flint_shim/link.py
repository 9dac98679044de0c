"""The socket to Flint, blocking. Does not import the `socket` module, which costs more than all other imports of the shim together."""

import json
import os
import select

from .frame import ACK, BODY, ERROR, RESULT, U32, FrameReader, ProtocolError, encode

WINDOW = 1024 * 1024
PIECE = 128 * 1024


class PeerGone(BaseException):
    """Flint has closed the link. Not an `Exception`, so that user code does not swallow it."""


class Link:
    def __init__(self, fd):
        os.set_inheritable(fd, False)
        os.set_blocking(fd, True)
        self.fd = self._to = fd
        self._held = b""
        self._reader = FrameReader(self._read_into)
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)

    def _read_into(self, view):
        if self._held:
            self.write(b"")
        try:
            return os.readv(self.fd, (view,))
        except ConnectionResetError:
            return 0

    def receive(self):
        """The next frame; raises PeerGone at the end of the link."""
        frame = self._reader.next()
        if frame is None:
            raise PeerGone
        return frame

    def hold(self, kind, call):
        """Holds back a frame that is not urgent: it is sent with the next write, or before the next wait."""
        self._held = encode(kind, call)

    def write(self, data):
        if self._held:
            data, self._held = self._held + data, b""
        try:
            written = os.write(self._to, data)
            if written < len(data):
                view = memoryview(data)
                while written < len(data):
                    written += os.write(self._to, view[written:])
        except (BrokenPipeError, ConnectionResetError):
            raise PeerGone from None

    def send(self, kind, call, payload=b"", fin=False):
        self.write(encode(kind, call, payload, fin))

    def send_json(self, kind, call, value):
        self.send(kind, call, json.dumps(value).encode())

    def send_stream(self, call, head, pieces):
        """Sends RESULT without FIN and then the pieces, within the window of unacknowledged bytes.

        Stops early when Flint reports that the caller has gone away. The caller of this method sends END.
        """
        self.send(RESULT, call, head)
        outgoing = _Outgoing(self, call)
        for piece in pieces:
            view = memoryview(piece)
            for at in range(0, len(view), PIECE):
                if not outgoing.send(view[at:at + PIECE]):
                    return

    def has_input(self):
        return self.has_unread() or bool(self._poll.poll(0))

    def has_unread(self):
        """Whether bytes of a later frame have already been read from the socket."""
        return self._reader.has_unread()

    def begin_rehearsal(self, frame):
        """Makes this frame the next one; what is written goes to descriptor 0, which is /dev/null."""
        self._reader.put(frame)
        self._to = 0

    def end_rehearsal(self):
        self._to = self.fd


class _Outgoing:
    """Flow control of one response body."""

    def __init__(self, link, call):
        self._link, self._call = link, call
        self._unacknowledged = 0
        self._cancelled = False

    def send(self, piece):
        """Sends a piece; False when the caller has gone away."""
        while not self._cancelled and (self._unacknowledged + len(piece) > WINDOW or self._link.has_input()):
            self._receive()
        if self._cancelled:
            return False
        self._unacknowledged += len(piece)
        self._link.send(BODY, self._call, piece)
        return True

    def _receive(self):
        kind, _, call, payload = self._link.receive()
        if kind == ACK and len(payload) == 4:
            if call == self._call:
                self._unacknowledged -= U32.unpack(payload)[0]
                if self._unacknowledged < 0:
                    raise ProtocolError("order", "more bytes were acknowledged than sent")
        elif kind == ERROR:
            self._cancelled = self._cancelled or call == self._call
        else:
            raise ProtocolError("order", f"a frame of kind {kind} came while call {self._call} was running")


