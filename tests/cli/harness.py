"""A scratch world for the cases: servers of their own, commands, and what a case may claim about them."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

READY_WITHIN_S = 180
ENDED_WITHIN_S = 120
COMMAND_WITHIN_S = 300


class CaseFailed(AssertionError):
    """A claim that does not hold; the text says which."""


class Done:
    """A command that has ended."""

    def __init__(self, arguments, code, out, err):
        self.arguments, self.code, self.out, self.err = arguments, code, out, err

    @property
    def text(self):
        return self.out.decode("utf-8", "replace")

    @property
    def said(self):
        return self.err.decode("utf-8", "replace")

    def json(self):
        try:
            return json.loads(self.out)
        except ValueError:
            raise CaseFailed(f"{self}\nis not JSON") from None

    def __str__(self):
        return f"flint {' '.join(self.arguments)} -> {self.code}\nout: {self.text[:2000]}\nerr: {self.said[:2000]}"


class Server:
    """`flint up`, by the command `before` it, where there is one. What it says goes to a file; its log goes to `stderr`, where that is given."""

    def __init__(self, world, data_dir, *options, port=None, env=None, before=(), stderr=subprocess.STDOUT):
        self.world, self.data_dir = world, Path(data_dir)
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_path = world.path(f"server-{self.port}-{time.monotonic_ns()}.log")
        with open(self.log_path, "wb") as log:
            command = [*before, world.flint, "up", "--listen", f"127.0.0.1:{self.port}", "--data-dir", str(data_dir), *options]
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=stderr, env=world.environment(env)
            )
        world.servers.append(self)
        deadline = time.monotonic() + READY_WITHIN_S
        while not answers(f"{self.url}/ready"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise CaseFailed(f"the server is not ready (exit code {self.process.poll()}):\n{self.log()}")
            time.sleep(0.02)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        try:
            return self.process.wait(ENDED_WITHIN_S)
        except subprocess.TimeoutExpired:
            raise CaseFailed(f"the server did not end:\n{self.log()}") from None

    def stop(self):
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
            self.wait()
        return self.process.returncode

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class World:
    """What the cases share: the binary, a scratch directory, and one server that is started when it is first asked for."""

    def __init__(self, flint, scratch):
        self.flint, self.scratch, self.servers, self._shared = str(flint), scratch, [], None
        self.path("home").mkdir()

    def path(self, name):
        return self.scratch / name

    def file(self, name, content, executable=False):
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        if executable:
            path.chmod(0o755)
        return str(path)

    def environment(self, extra=None):
        """Nothing of the caller's own Flint: no key, no address, no configuration."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("FLINT")}
        kept.update({"XDG_CONFIG_HOME": str(self.path("home")), "XDG_DATA_HOME": str(self.path("home"))})
        kept.update(extra or {})
        return kept

    @property
    def server(self):
        if self._shared is None or self._shared.process.poll() is not None:
            limits = ["--set", "limits.invocations_per_minute=100000", "--set", "limits.concurrent_invocations=1000"]
            self._shared = Server(self, self.path("shared-data"), *limits)
        return self._shared

    def run(self, *arguments, stdin=b"", env=None, url=None):
        """One command against the shared server (or `url`)."""
        environment = self.environment(env)
        if "FLINT_URL" not in (env or {}):
            environment["FLINT_URL"] = url or self.server.url
        return self.bare(*arguments, stdin=stdin, environment=environment)

    def bare(self, *arguments, stdin=b"", environment=None):
        """One command without any server in mind."""
        arguments = [str(argument) for argument in arguments]
        done = subprocess.run(
            [self.flint, *arguments], input=stdin, capture_output=True, env=environment or self.environment(), timeout=COMMAND_WITHIN_S
        )
        return Done(arguments, done.returncode, done.stdout, done.stderr)

    def ok(self, *arguments, **options):
        done = self.run(*arguments, **options)
        if done.code != 0:
            raise CaseFailed(str(done))
        return done

    def refused(self, code, *parts, arguments, **options):
        """The command ends with this exit code, and its message has all the parts."""
        done = self.run(*arguments, **options)
        if done.code != code or any(part not in done.said for part in parts):
            raise CaseFailed(f"expected exit code {code} and {parts}:\n{done}")
        return done

    def start(self, *arguments, url=None, env=None):
        """A command that goes on; its output goes to a file."""
        environment = self.environment({"FLINT_URL": url or self.server.url, **(env or {})})
        out = self.path(f"out-{time.monotonic_ns()}")
        with open(out, "wb") as file:
            process = subprocess.Popen(
                [self.flint, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, env=environment
            )
        return Running(process, out)

    def close(self):
        for server in self.servers:
            server.kill()


class Running:
    """A command that goes on."""

    def __init__(self, process, out):
        self.process, self.out = process, out

    def text(self):
        return self.out.read_text(errors="replace")

    def until(self, part, within_s=180):
        deadline = time.monotonic() + within_s
        while part not in self.text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.end()
                raise CaseFailed(f"'{part}' did not come (exit code {self.process.poll()}):\n{self.text()}")
            time.sleep(0.02)
        return self.text()

    def end(self, number=signal.SIGINT):
        if self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def fetch(url):
    with urllib.request.urlopen(url, timeout=120) as answer:
        return answer.read()


reserved = []


def free_port():
    """One that stays ours until this programme ends: servers may listen where one who does not is bound, and nobody else is given such a port."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    reserved.append(holder)
    return holder.getsockname()[1]


def claim(holds, *said):
    if not holds:
        raise CaseFailed("\n".join(str(part) for part in said) or "a claim does not hold")


def eventually(what, holds, within_s=180):
    """Waits until `holds()` is truthy and gives it."""
    deadline = time.monotonic() + within_s
    while True:
        value = holds()
        if value:
            return value
        if time.monotonic() > deadline:
            raise CaseFailed(f"it did not come about: {what}")
        time.sleep(0.05)
