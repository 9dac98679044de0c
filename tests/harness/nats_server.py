"""A real NATS server on a free port, and a client that publishes in its text protocol.

Needs the program `nats-server` (Debian has a package of that name) and Python's standard library.
"""

import json
import shutil
import socket
import subprocess
import tempfile

from flint_server import free_port, wait_for

PROGRAM = shutil.which("nats-server") or "/usr/sbin/nats-server"


class NatsServer:
    def __init__(self):
        self.port, self.process = free_port(), None
        self.data = tempfile.mkdtemp(prefix="flint-nats-")
        self.host = f"127.0.0.1:{self.port}"

    def start(self):
        self.process = subprocess.Popen(
            [PROGRAM, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", self.data],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

        def listens():
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return True
            except OSError:
                return False

        wait_for(listens, 60, "nats-server")
        return self

    def stop(self):
        """Stops it regularly: acknowledged messages are kept."""
        if self.process:
            self.process.terminate()
            self.process.wait(60)
            self.process = None

    def remove(self):
        self.stop()
        shutil.rmtree(self.data, ignore_errors=True)


class Sender:
    """A connection for publishing and requests."""

    def __init__(self, server):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        self.lines, self.asked = self.socket.makefile("rb"), 0
        self.lines.readline()  # INFO
        self.send("CONNECT " + json.dumps({"verbose": False, "pedantic": False}), "SUB answers.* 1")

    def send(self, *lines):
        self.socket.sendall("".join(line + "\r\n" for line in lines).encode())

    def publish(self, subject, text):
        self.send(f"PUB {subject} {len(text.encode())}", text)

    def ask(self, subject, text):
        """Sends a request; returns the reply."""
        self.asked += 1
        inbox = f"answers.{self.asked}"
        self.send(f"PUB {subject} {inbox} {len(text.encode())}", text)
        while True:
            words = self.lines.readline().split()
            if not words:
                raise ConnectionError("nats-server has closed the connection")
            if words[0] == b"PING":
                self.send("PONG")
            elif words[0] == b"-ERR":
                raise AssertionError(words)
            elif words[0] in (b"MSG", b"HMSG"):
                body = self.lines.read(int(words[-1]) + 2)
                if words[1].decode() == inbox:
                    assert words[0] == b"MSG", body  # with headers it says that nobody answers
                    answer = json.loads(body)
                    assert "error" not in answer, answer
                    return answer

    def create_stream(self, name, *subjects):
        config = {"name": name, "subjects": subjects, "retention": "limits", "storage": "file", "max_consumers": -1}
        config.update({"max_msgs": -1, "max_bytes": -1, "max_age": 0, "num_replicas": 1})
        self.ask(f"$JS.API.STREAM.CREATE.{name}", json.dumps(config))

    def store(self, subject, text):
        """Publishes to a stream; returns the sequence number once the message is stored."""
        return self.ask(subject, text)["seq"]

    def close(self):
        self.lines.close()
        self.socket.close()
