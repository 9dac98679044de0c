"""A Flint server for end-to-end tests: started on a free port, used like a user's, and checked for remains after its end.

Needs nothing but Python's standard library. `FLINT_BIN` names the binary.
"""

import base64
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

FLINT = os.environ.get("FLINT_BIN", "flint")
# The OpenWhisk contract's well-known guest, which exists while a server listens on loopback.
GUEST = (
    "23bc46b1-71f6-4ed5-8c54-816aa4f8c502:"
    "123zO3xZCLrMN6v2BKK1dXYFpXlPkccOFqm12CdAsMgRU4VrNZ9lyGVCGuMDGIwP"
)


def wait_for(condition, seconds, what):
    """The first true value of `condition()`; fails after `seconds`, a bound on hanging and not a promise of speed."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come about within {seconds} s")
        time.sleep(0.02)


reserved = []


def free_port():
    """A port reserved until this program ends, even while nothing listens on it: a bound socket with SO_REUSEADDR keeps
    the kernel from assigning the port, while a server can still listen on it."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    reserved.append(holder)
    return holder.getsockname()[1]


class Answer:
    """Status, headers and body of an HTTP response."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:400]!r}>"


class Server:
    def __init__(self, data_dir=None, settings=None, listen="127.0.0.1"):
        self.scratch = Path(tempfile.mkdtemp(prefix="flint-e2e-"))
        self.data_dir = Path(data_dir) if data_dir else self.scratch / "data"
        self.listen = listen
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.settings = {
            "FLINT_LIMITS__INVOCATIONS_PER_MINUTE": "1000000",
            "FLINT_LIMITS__CONCURRENT_INVOCATIONS": "10000",
            **(settings or {}),
        }
        self.process = None
        # Identifies its process among those of other servers; the launcher's descendants are identified by their cgroups, and by what
        # of the data directory is mounted in them.
        self.mark = f"flint-test-{uuid.uuid4()}"
        # The common prefix of its cgroups' names.
        self.group = None
        # What it had started, and what these had, when it was ended: where there are no cgroups, its launcher is known by that.
        self.offspring = set()

    # --- start and stop

    def start(self):
        again = self.process is not None
        with open(self.scratch / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                [FLINT, "up", "--listen", f"{self.listen}:{self.port}", "--data-dir", str(self.data_dir)],
                env={**os.environ, **self.settings, "FLINT_TEST_MARK": self.mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

        def ready():
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log_text()}")
            try:
                return self.request("GET", "/ready").status == 200
            except OSError:
                return False

        wait_for(ready, 120, "a ready server")
        self.group = self.group or group_of(self)
        if again:
            assert_nothing_unfinished(self)
        return self

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        self.stop()
        self.remove()

    def kill(self):
        """kill -9."""
        self.offspring |= offspring(self.process.pid)
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.offspring |= offspring(self.process.pid)
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(120)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"the server did not stop when asked:\n{self.log_text()}")
            code = self.process.returncode
            assert code == 0, f"the server was asked to stop and ended with {code}:\n{self.log_text()}"
        return self.process.returncode if self.process else None

    def remove(self):
        shutil.rmtree(self.scratch, ignore_errors=True)

    def log_text(self):
        return (self.scratch / "server.log").read_text(errors="replace")[-8000:]

    # --- use

    def request(self, method, path, body=None, headers=None, auth=GUEST, timeout=120):
        headers = dict(headers or {})
        if auth:
            headers["Authorization"] = "Basic " + base64.b64encode(auth.encode()).decode()
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        request = urllib.request.Request(self.url + path, data=body, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return Answer(response.status, response.headers, response.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.headers, error.read())

    def put(self, name, kind, code, **fields):
        """Creates or replaces an action over the OpenWhisk API."""
        body = {"exec": {"kind": kind, "code": code}, **fields}
        answer = self.request("PUT", f"/api/v1/namespaces/_/actions/{name}?overwrite=true", body)
        assert answer.status == 200, answer
        return answer.json()

    def invoke(self, name, params=None, timeout=120):
        """A blocking call; returns the HTTP status and the activation record."""
        answer = self.request("POST", f"/api/v1/namespaces/_/actions/{name}?blocking=true", params or {}, timeout=timeout)
        return answer.status, answer.json()

    def invoke_later(self, name, params=None):
        return self.request("POST", f"/api/v1/namespaces/_/actions/{name}?blocking=false", params or {})

    def activation(self, activation_id, seconds=60):
        """The stored record, with its logs."""

        def stored():
            answer = self.request("GET", f"/api/v1/namespaces/_/activations/{activation_id}")
            return answer.json() if answer.status == 200 else None

        return wait_for(stored, seconds, f"the record of {activation_id}")

    def busy(self):
        """How many instances have a call now."""
        lines = self.request("GET", "/metrics").body.decode().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith('flint_instances{state="busy"} '))

    def cli(self, *arguments, **options):
        return subprocess.run(
            [FLINT, *arguments], env={**os.environ, "FLINT_URL": self.url}, capture_output=True, timeout=900, **options
        )


# --- remains of a server


def processes():
    """Running processes: id, executable, cgroups and environment."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            executable = os.path.realpath(f"/proc/{pid}/exe")
            groups = Path(f"/proc/{pid}/cgroup").read_text()
            state = re.search(r"^State:\s+(\S)", Path(f"/proc/{pid}/status").read_text(), re.M).group(1)
        except (OSError, AttributeError):
            continue
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            environment = b""  # of another user's: known by its cgroups
        if state != "Z":
            yield pid, executable, groups, environment


def cgroups():
    for directory, subdirectories, _ in os.walk("/sys/fs/cgroup"):
        yield from (Path(directory, name) for name in subdirectories if name.startswith("flint"))


def mounts():
    return (line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines())


def group_of(server):
    """The prefix of the names of a running server's cgroups; `None` if the host provides none."""
    names = (re.fullmatch(r"(flint-.*-)(\d+)", group.name) for group in cgroups())
    return next((name[1] for name in names if name and parent(name[2]) == server.process.pid), None)


def parent(pid):
    try:
        return int(re.search(r"^PPid:\s+(\d+)$", Path(f"/proc/{pid}/status").read_text(), re.M)[1])
    except OSError:
        return None


def origin(pid):
    """A process's parent, and when it began: whoever has its id later is another one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2].split()
        return fields[1], fields[19]
    except (OSError, IndexError):
        return None, None


def offspring(pid):
    """The living children of a process, theirs and so on: ids, and when each began."""
    origins = {other: origin(other) for other in filter(str.isdigit, os.listdir("/proc"))}
    found, more = set(), {str(pid)}
    while more:
        more = {other for other, (parent, _) in origins.items() if parent in more}
        found |= more
    return {(other, origins[other][1]) for other in found}


def mounted_in(directory):
    """How the mount table of a process that sees something of this directory begins to name it: from the root of its file system."""
    directory = os.path.realpath(directory)
    top = directory
    while not os.path.ismount(top):
        top = os.path.dirname(top)
    return f"/{os.path.relpath(directory, top)}/"


def sees(pid, place):
    try:
        return place in Path(f"/proc/{pid}/mountinfo").read_text(errors="replace")
    except OSError:
        return False


def left_of(server):
    """Everything of one server that exists on this machine now, independently of other servers."""
    place = mounted_in(server.data_dir)
    found = {
        f"process {pid} {executable}"
        for pid, executable, groups, environment in processes()
        if server.mark.encode() in environment
        or server.group and f"/{server.group}" in groups
        or (pid, origin(pid)[1]) in server.offspring
        or sees(pid, place)
    }
    found.update(f"mount {target}" for target in mounts() if target.startswith((str(server.scratch), str(server.data_dir))))
    if server.group:
        found.update(f"cgroup {group}" for group in cgroups() if group.name.startswith(server.group))
    return found


# What Flint calls a file or a directory until it is whole: sources say `half`.
UNFINISHED = re.compile(r"\.building-.+|.+\.half|.+\.(cwasm|sum)\.\d+")


def unfinished_in(server):
    """What a crash may leave in the data directory until the next start, and what is never there: sockets, FIFOs, cores."""
    for folder, folders, files in os.walk(server.data_dir):
        for path in (Path(folder, name) for name in (*folders, *files)):
            try:
                mode = path.lstat().st_mode
            except OSError:
                continue
            maker = re.fullmatch(r"\..+\.(\d+)", path.name)
            if (
                UNFINISHED.fullmatch(path.name)
                or maker and int(maker[1]) != server.process.pid and not Path("/proc", maker[1]).exists()
                or path.parent == server.data_dir / "blobs/tmp"
                or path.parent == server.data_dir / "activations" and path.suffix == ".tmp"
                or stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode)
                or stat.S_ISREG(mode) and re.fullmatch(r"core(\.\d+)?", path.name)
            ):
                yield str(path)


def assert_nothing_unfinished(server, seconds=120):
    """Fails unless what is half made is gone at some moment: a running server may be making something itself."""
    found = []

    def none():
        found[:] = unfinished_in(server)
        return not found

    try:
        wait_for(none, seconds, "a clean data directory")
    except AssertionError as error:
        raise AssertionError(f"{error}:\n  " + "\n  ".join(sorted(found))) from None


def left_of_any():
    """Everything of any Flint that exists on this machine now, except in the cgroups of another running binary."""
    binary = os.path.realpath(shutil.which(FLINT) or FLINT)

    def belongs_to_another(groups):
        owner = re.search(r"/flint-[^/\s]*-(\d+)", groups)
        try:
            return bool(owner) and os.readlink(f"/proc/{owner[1]}/exe") != binary
        except OSError:
            return False

    found = {
        f"process {pid} {executable}"
        for pid, executable, groups, _ in processes()
        if executable == binary or re.search(r"/flint[-.]", groups) and not belongs_to_another(groups)
    }
    found.update(f"mount {target}" for target in mounts() if "flint" in target and not target.startswith(os.getcwd()))
    found.update(f"cgroup {group}" for group in cgroups() if not belongs_to_another(str(group)))
    found.update(f"interface {name}" for name in os.listdir("/sys/class/net") if name.startswith("fl"))
    return found


def assert_nothing_left(server, seconds=120):
    """Fails unless everything that the server created is gone."""
    found = set()

    def gone():
        nonlocal found
        found = left_of(server)
        return not found

    try:
        wait_for(gone, seconds, "a clean machine")
    except AssertionError as error:
        left = "\n  ".join(sorted(found) + sorted(members(found)))
        end = f"the server ended with {server.process.returncode}; its log ends with"
        raise AssertionError(f"{error}:\n  {left}\n{end}\n{server.log_text()[-3000:]}") from None


def members(found):
    """The contents of remaining cgroups: groups, and the tasks in each with their states."""
    for line in found:
        kind, _, root = line.partition(" ")
        for directory, _, _ in os.walk(root) if kind == "cgroup" else ():
            try:
                tasks = Path(directory, "tasks")
                tasks = tasks if tasks.exists() else Path(directory, "cgroup.threads")
                yield f"{directory} has " + (" ".join(map(task, tasks.read_text().split())) or "no tasks")
            except OSError as error:
                yield f"{directory}: {error}"


def task(tid):
    try:
        return "{}:{}:{}".format(tid, *re.search(r"\((.*)\) (\S)", Path(f"/proc/{tid}/stat").read_text(), re.S).groups())
    except (OSError, AttributeError):
        return f"{tid}:gone"


if __name__ == "__main__":
    # Prints everything of any Flint on this machine; given a file with such lines, prints what is not in it after a minute,
    # and then exits with 1.
    if len(sys.argv) == 1:
        print("\n".join(sorted(left_of_any())))
    else:
        before = set(Path(sys.argv[1]).read_text().splitlines())
        try:
            wait_for(lambda: not left_of_any() - before, 60, "a clean machine")
        except AssertionError:
            sys.exit("left on this machine:\n  " + "\n  ".join(sorted(left_of_any() - before)))
