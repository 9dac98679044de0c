"""Answers each POST from a container: one that waits where there is one, otherwise a new one. Each path is a function of its own.

pool.py DATA_DIR RUNTIME PORT FILE [--shared] [--keep-alive MS]

--shared: one container takes all calls at once and stays, and starts a process for each (runtime/watchdog.py). Otherwise a container takes
the function's code at its start and then one call after the other (runtime/proxy.*), and goes when it has been idle for MS milliseconds.

An answer says what its call waited for: x-start-us from the first step until the code was loaded, x-init-us loading it; and x-run-us. The
first two are missing where a container waited. GET says how many calls are running. Containers are children of this process, whatever made them: their memory is its tree's.
"""

import argparse
import ctypes
import http.client
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "container"))

import bundle

SUBREAPER = 36
READY_WITHIN_S = 60
REMOVED_WITHIN_S = 30
SHARED_MEMORY = 8 << 30


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("container", timeout=600)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Container:
    numbers = itertools.count()
    lock = threading.Lock()

    def __init__(self, pool):
        began = time.perf_counter()
        with self.lock:
            number = next(self.numbers)
        self.pool, self.name = pool, f"flint-baseline-{os.getpid()}-{number:06}"
        self.folder, self.idle_since, self.pid = pool.data / "c" / str(number), 0.0, None
        self.socket = self.folder / "s" / "s"
        self.socket.parent.mkdir(parents=True)
        self.socket.parent.chmod(0o777)
        mounts = [bundle.bind(HERE / "runtime", "/runtime"), bundle.bind(self.socket.parent, "/socket", "rw")]
        bundle.write(self.folder / "bundle", bundle.config(pool.data, pool.args, mounts, **pool.limits))
        try:
            self.start()
            loading = time.perf_counter()
            if not pool.shared:
                self.ask("/init", pool.init)
        except Exception:
            self.remove()
            raise
        ready = time.perf_counter()
        self.start_us, self.init_us = int((ready - began) * 1e6), int((ready - loading) * 1e6)

    def start(self):
        pid_file = self.folder / "pid"
        made = subprocess.Popen(
            [*self.pool.runtime, "run", "--detach", "--pid-file", str(pid_file), "--bundle", str(self.folder / "bundle"), self.name],
            stdin=subprocess.DEVNULL, stdout=open(self.folder / "log", "wb"), stderr=subprocess.STDOUT)
        if made.wait():
            raise RuntimeError(self.last_words())
        self.pid = int(pid_file.read_text())
        until = time.monotonic() + READY_WITHIN_S
        while True:
            try:
                self.connection = UnixConnection(self.socket)
                return self.connection.connect()
            except OSError:
                if time.monotonic() > until:
                    raise RuntimeError(f"the runtime does not listen: {self.last_words()}")
                time.sleep(0.001)

    def ask(self, path, value, connection=None):
        connection = connection or self.connection
        connection.request("POST", path, json.dumps({"value": value}), {"content-type": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(body.decode("utf-8", "replace"))
        return body

    def last_words(self):
        try:
            return (self.folder / "log").read_text(errors="replace")[-1000:]
        except OSError:
            return "it has left no log"

    def remove(self):
        until = time.monotonic() + REMOVED_WITHIN_S
        try:
            # Not to a pipe, which remaining descendants of the runtime may hold open.
            with open(self.folder / "log", "ab") as log:
                subprocess.run([*self.pool.runtime, "delete", "--force", self.name], check=True,
                               stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=REMOVED_WITHIN_S)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"{self.name} could not be removed: {error}; {self.last_words()}", file=sys.stderr)
        if self.pid and not ended(self.pid, until):
            print(f"{self.name} goes on after its removal: process {self.pid} is killed", file=sys.stderr)
            os.kill(self.pid, signal.SIGKILL)
            ended(self.pid, time.monotonic() + REMOVED_WITHIN_S)
        shutil.rmtree(self.folder, ignore_errors=True)


def ended(pid, until):
    """Waits for a child's end, and says whether it came."""
    while True:
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return True
        except ChildProcessError:
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.01)


class Pool:
    def __init__(self, options):
        self.data, self.shared, self.keep_alive_s = Path(options.data), options.shared, options.keep_alive / 1000
        self.runtime = [options.runtime, "--root", f"{options.data}/state"]
        if Path(options.runtime).name == "runsc":
            self.runtime += ["--network=none", "--ignore-cgroups", "--platform=systrap", "--host-uds=all"]
        code = self.data / "code" / options.file
        # A package is given by its folder; a single file as text.
        self.init = {"main": "main", **({"file": f"/function/{options.file}"} if code.is_dir() else {"code": code.read_text()})}
        self.limits = {"memory": SHARED_MEMORY, "processes": 4096} if self.shared else {}
        self.args = self.command(options.file)
        self.lock, self.idle, self.running = threading.Lock(), {}, 0

    def command(self, file):
        if self.shared:
            return [bundle.interpreter("python3"), "/runtime/watchdog.py", "/socket/s", *bundle.command(file)]
        if not file.endswith(".py"):
            return [bundle.interpreter("node"), "/runtime/proxy.js", "/socket/s"]
        return [bundle.interpreter("python3"), "/runtime/proxy.py", "/socket/s"]

    def call(self, path, params):
        if self.shared:
            return self.call_shared(path, params)
        with self.lock:
            waiting = self.idle.setdefault(path, [])
            # The one used last, so that surplus ones become idle and expire.
            container = waiting.pop() if waiting else None
        headers = {}
        if container is None:
            container = Container(self)
            headers = {"x-start-us": container.start_us, "x-init-us": container.init_us}
        began = time.perf_counter()
        with self.lock:
            self.running += 1
        try:
            body = container.ask("/run", params)
        except Exception:
            container.remove()
            raise
        finally:
            with self.lock:
                self.running -= 1
        headers["x-run-us"] = int((time.perf_counter() - began) * 1e6)
        container.idle_since = time.monotonic()
        with self.lock:
            self.idle[path].append(container)
        return body, headers

    def call_shared(self, path, params):
        with self.lock:
            if path not in self.idle:
                self.idle[path] = Container(self)
            container = self.idle[path]
        began = time.perf_counter()
        connection = UnixConnection(container.socket)
        try:
            body = container.ask("/run", params, connection)
        finally:
            connection.close()
        return body, {"x-run-us": int((time.perf_counter() - began) * 1e6)}

    def expire(self):
        while True:
            time.sleep(min(self.keep_alive_s / 4, 1))
            with self.lock:
                old, now = [], time.monotonic()
                for path, waiting in self.idle.items():
                    old += [one for one in waiting if now - one.idle_since > self.keep_alive_s]
                    self.idle[path] = [one for one in waiting if now - one.idle_since <= self.keep_alive_s]
            # A slow one does not delay the others.
            for container in old:
                threading.Thread(target=container.remove, daemon=True).start()


def handler(pool):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body in one write, where they fit into its 8 KiB; what follows does not wait for an acknowledgement.
        wbufsize = -1
        disable_nagle_algorithm = True

        def do_POST(self):
            asked, headers = self.rfile.read(int(self.headers["content-length"])), {}
            try:
                status, (body, headers) = 200, pool.call(self.path, json.loads(asked))
            except Exception as error:
                status, body = 502, f"{type(error).__name__}: {error}".encode()
            self.send_response(status)
            self.send_header("content-type", "application/json" if status == 200 else "text/plain")
            self.send_header("content-length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            body = f"{pool.running}\n".encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    return Handler


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, kind in (("data", str), ("runtime", str), ("port", int), ("file", str)):
        parser.add_argument(name, type=kind)
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--keep-alive", type=float, default=600_000, metavar="MS")
    options = parser.parse_args()
    # Makes orphaned container processes children of this one.
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    pool = Pool(options)
    if not pool.shared:
        threading.Thread(target=pool.expire, daemon=True).start()
    Server(("127.0.0.1", options.port), handler(pool)).serve_forever()


if __name__ == "__main__":
    main()
