"""Flint's side of the link, for tests and benchmarks: starts a shim on a socketpair and speaks frames with it."""

import json
import os
import socket
import struct
import subprocess

from output import Output

KINDS = {"HELLO": 1, "INIT": 2, "READY": 3, "FREEZE": 4, "CLONE": 5, "RESTORE": 6, "ACK": 7,
         "INVOKE": 8, "BODY": 9, "END": 10, "RESULT": 11, "LOG": 12, "ERROR": 13}
NAMES = {number: name for name, number in KINDS.items()}
HEADER = struct.Struct(">IBBHI")
U32 = struct.Struct(">I")
WINDOW = 1024 * 1024
PIECE = 256 * 1024
FAR_DEADLINE_MS = 4_000_000_000_000


def encode(kind, call=0, payload=b"", fin=False):
    return HEADER.pack(len(payload), KINDS[kind], int(fin), 0, call) + payload


def with_head(head, body=b""):
    text = b"" if head is None else json.dumps(head).encode()
    return U32.pack(len(text)) + text + body


class Frame:
    def __init__(self, kind, fin, call, payload):
        self.kind, self.fin, self.call, self.payload = kind, fin, call, payload

    def json(self):
        return json.loads(self.payload)

    def __repr__(self):
        return f"{self.kind}(call={self.call}, fin={self.fin}, {self.payload[:200]!r})"


class Answer:
    """The outcome of a call: either `error` ({"kind", "message"}), or `head` and `body`."""

    def __init__(self):
        self.head, self.body, self.error, self.frames = None, b"", None, []

    def json(self):
        if self.error is not None:
            raise AssertionError(f"the call failed: {self.error}")
        return json.loads(self.body)

    @property
    def headers(self):
        return dict(map(tuple, self.head["headers"]))


class Peer:
    """A running shim. Every wait ends after `timeout_s`, which is far more than the time that a shim is given for anything (a freeze: a minute)."""

    def __init__(self, argv, env=None, cwd=None, timeout_s=300):
        ours, theirs = socket.socketpair()
        ours.settimeout(timeout_s)
        self.socket = ours
        full_env = dict(os.environ if env is None else env, FLINT_LINK_FD="3")
        lowered = os.dup(theirs.fileno())  # dup2 to the same number would leave close-on-exec set
        theirs.close()
        pipes = {name: os.pipe() for name in ("stdout", "stderr")}
        self.process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=pipes["stdout"][1], stderr=pipes["stderr"][1], cwd=cwd, env=full_env,
            close_fds=False, preexec_fn=lambda: os.dup2(lowered, 3))
        os.close(lowered)
        self.collect(pipes)
        self.buffer = bytearray()
        self.last_call = 0

    def collect(self, pipes):
        """Reads from pipes whose writing ends another process has by now."""
        self.output = {}
        for name, (reading, writing) in pipes.items():
            os.close(writing)
            self.output[name] = Output(reading)

    # --- frames

    def send(self, *args, **kwargs):
        self.socket.sendall(encode(*args, **kwargs))

    def receive(self):
        """The next frame, or None at the end of the link."""
        header = self._take(12)
        if header is None:
            return None
        length, kind, flags, reserved, call = HEADER.unpack(header)
        assert length <= 1 << 20 and flags <= 1 and reserved == 0, header
        return Frame(NAMES[kind], bool(flags), call, self._take(length))

    def _take(self, count):
        while len(self.buffer) < count:
            try:
                piece = self.socket.recv(1 << 20)
            except ConnectionResetError:
                piece = b""
            if not piece:
                assert not self.buffer, "the link ended in the middle of a frame"
                return None
            self.buffer += piece
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken

    def expect(self, kind):
        frame = self.receive()
        assert frame is not None and frame.kind == kind, f"expected {kind}, got {frame}; stderr: {self.stderr}"
        return frame

    # --- the life of an instance

    def start(self, code, main="main", **init):
        """HELLO, INIT, READY."""
        hello = self.expect("HELLO").json()
        self.init(code, main, **init)
        self.expect("READY")
        return hello

    def init(self, code, main="main", **init):
        fields = {"code": str(code), "main": main, "env": {}, "namespace": "guest", "name": "f", "version": "0.0.1"}
        fields.update(init)
        self.send("INIT", payload=json.dumps(fields).encode())

    def invoke(self, params=None, body=None, split=None, **head):
        """A call from its first to its last frame. `split`: send the body in pieces of that many bytes."""
        call = self.begin(head)
        data = body if body is not None else json.dumps({} if params is None else params).encode()
        if split is None and len(data) < WINDOW - 65536:
            self.send("INVOKE", call, with_head(self.head, data), fin=True)
        else:
            self._send_streamed(call, data, split or PIECE)
        return self.answer(call)

    def begin(self, head):
        self.last_call += 1
        self.head = {"activation": f"{self.last_call:032x}", "deadline": FAR_DEADLINE_MS, **head}
        return self.last_call

    def _send_streamed(self, call, data, size):
        first = data[:size]
        self.send("INVOKE", call, with_head(self.head, first))
        unacknowledged = len(first)
        for at in range(size, len(data), size):
            piece = data[at:at + size]
            while unacknowledged + len(piece) > WINDOW:
                frame = self.expect("ACK")
                assert frame.call == call
                unacknowledged -= U32.unpack(frame.payload)[0]
            self.send("BODY", call, piece)
            unacknowledged += len(piece)
        self.send("END", call)

    def answer(self, call, acknowledge=True):
        answer, body = Answer(), []
        while True:
            frame = self.receive()
            assert frame is not None, f"the link ended during the call; stderr: {self.stderr}"
            if frame.kind == "ACK":
                continue
            assert frame.call == call, frame
            answer.frames.append(frame.kind)
            if frame.kind == "ERROR":
                answer.error = frame.json()
                return answer
            if frame.kind == "RESULT":
                length = U32.unpack_from(frame.payload)[0]
                answer.head = json.loads(frame.payload[4:4 + length]) if length else None
                piece = frame.payload[4 + length:]
            else:
                assert frame.kind in ("BODY", "END"), frame
                piece = frame.payload
            body.append(piece)
            if frame.fin or frame.kind == "END":
                answer.body = b"".join(body)
                return answer
            if acknowledge and piece:
                self.send("ACK", call, U32.pack(len(piece)))

    # --- its end

    @property
    def stdout(self):
        return self.output["stdout"].so_far().decode("utf-8", "replace")

    @property
    def stderr(self):
        return self.output["stderr"].so_far().decode("utf-8", "replace")

    def wait(self, timeout_s=60):
        """The exit status, with all output collected."""
        status = self.process.wait(timeout_s)
        for output in self.output.values():
            output.ended(timeout_s)
        return status

    def close(self, timeout_s=60):
        self.socket.close()
        try:
            return self.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.wait()
            raise
