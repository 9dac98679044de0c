"""A server whose disk fills up: a small file system in a mount namespace of its own, which outlives the server."""

import base64
import errno
import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from cases_server import GUEST
from harness import CaseFailed, Server, claim, eventually

SIZE_MB = 256
# Answers with its arguments, after a while.
ECHO = "exports.main = async ({ wait = 0, ...rest }) => { await new Promise((done) => setTimeout(done, wait)); return rest; };\n"
# Of one call. What is smaller may find room in what the database has reserved.
LONG = "x" * 100_000
# An attempt may fail for want of room, and a call that could not be counted comes back when its lease is over.
PATIENT = ["--set", "async.max_attempts=50", "--set", "async.lease=10s", "--set", "async.retry_max_delay=2s"]
RECORDED_WITHIN_S = 600


class Disk:
    """A tmpfs that only the processes of `enter` see. From outside it is reached through the process that keeps it."""

    def __init__(self, path, keeper):
        self.data = path / "data"
        self.enter = ["nsenter", f"--target={keeper.pid}", "--mount"]
        self.filling = Path(f"/proc/{keeper.pid}/root{path}/filling")

    def fill(self):
        """Takes what is left, to the last byte."""
        with open(self.filling, "ab", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def free(self):
        self.filling.unlink()


@contextmanager
def a_small_disk(world):
    """`None` where none can be mounted."""
    if os.geteuid() != 0:
        yield None
        return
    path = world.path("small-disk")
    path.mkdir()
    mount = f'mount -t tmpfs -o size={SIZE_MB}m,mode=700 tmpfs "$0" && echo mounted && exec sleep infinity'
    keeper = subprocess.Popen(["unshare", "--mount", "sh", "-c", mount, path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        yield Disk(path, keeper) if keeper.stdout.readline() == b"mounted\n" else None
    finally:
        keeper.kill()
        keeper.wait()
        keeper.stdout.close()


def ask(server, method, path, body=None):
    """Status and body of an answer."""
    key = base64.b64encode(GUEST.encode()).decode()
    headers = {"authorization": f"Basic {key}", "content-type": "application/json"}
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{server.url}{path}", data=content, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def deploy(server, name):
    """The answers of both APIs."""
    native = {"kind": "nodejs", "code": {"format": "source", "text": f"// {name}\n{ECHO}"}, "start": "spawn", "limits": {"instances": 1}}
    openwhisk = {"exec": {"kind": "nodejs:default", "code": f"// {name}\n{ECHO}"}}
    return [
        ask(server, "PUT", f"/v1/functions/{name}", native),
        ask(server, "PUT", f"/api/v1/namespaces/_/actions/{name}-too?overwrite=true", openwhisk),
    ]


def call(server, query, **arguments):
    return ask(server, "POST", f"/api/v1/namespaces/_/actions/echo?{query}", arguments)


def accepted(server, **arguments):
    """The id of a call that is on disk."""
    status, text = call(server, "blocking=false", text=LONG, **arguments)
    claim(status == 202, status, text, server.log())
    return json.loads(text)["activationId"]


def until_refused(server, disk):
    """The ids of what finds room on a full disk all the same, and what is said when there is none."""
    ids = []
    for _ in range(400):
        disk.fill()
        status, text = call(server, "blocking=false", text=LONG)
        if status != 202:
            return ids, status, text
        ids.append(json.loads(text)["activationId"])
    raise CaseFailed(f"the disk does not fill\n{server.log()[-3000:]}")


def all_are_recorded(server, ids):
    """What was promised has become true: each ran, and its record has the answer."""

    def recorded(id):
        status, text = ask(server, "GET", f"/api/v1/namespaces/_/activations/{id}")
        return json.loads(text) if status == 200 else None

    for id in ids:
        record = eventually(f"the record of {id}\n{server.log()[-3000:]}", lambda: recorded(id), within_s=RECORDED_WITHIN_S)
        response = record["response"]
        claim(response["success"] and response["result"] == {"text": LONG}, id, str(record)[:2000])


def started_again(world, disk, port):
    """On a full disk: the server, or `None` when it said what to do instead."""
    try:
        return Server(world, disk.data, *PATIENT, port=port, before=disk.enter)
    except CaseFailed:
        refused = world.servers[-1]
        said = refused.log()
        claim(refused.process.poll() == 5 and "free space on the volume" in said, refused.process.poll(), said)
        claim("panicked" not in said, said)
        return None


def test_on_a_full_disk_writes_are_refused_with_the_cause_and_no_accepted_call_is_lost(world):
    with a_small_disk(world) as disk:
        if disk is None:
            print("not checked: it takes root, and a host that lets it mount", flush=True)
            return
        server = Server(world, disk.data, *PATIENT, before=disk.enter)
        try:
            claim([status for status, _ in deploy(server, "echo")] == [201, 200], server.log())
            claim(call(server, "blocking=true&result=true", n=1) == (200, '{"n":1}'), server.log())
            # Accepted while there is room, to end when there is none.
            ids = [accepted(server, wait=1000) for _ in range(3)]
            disk.fill()
            for status, text in deploy(server, "late"):
                claim(status == 503 and "disk is" in text and "full" in text, status, text)
            more, status, text = until_refused(server, disk)
            ids += more
            said = json.loads(text)
            claim(status == 503 and said["error"] == "The server is currently unavailable (because its disk is full).", status, text)
            claim("no space left" in said["cause"] and "free space" in said["cause"], text)
            # It needs no disk: its instance is there. If it cannot run all the same, it says why.
            status, text = call(server, "blocking=true&result=true", n=2)
            claim((status, text) == (200, '{"n":2}') or status >= 500 and ("disk" in text or "space" in text), status, text, server.log())
            claim(server.process.poll() is None, server.log())

            disk.free()
            ids.append(accepted(server))
            claim(call(server, "blocking=true&result=true", n=3) == (200, '{"n":3}'), server.log())
            claim([status for status, _ in deploy(server, "late")] == [201, 200], server.log())
            all_are_recorded(server, ids)

            # And so it is after `kill -9`, while the disk is still full.
            ids = [accepted(server, wait=1000) for _ in range(3)]
            more, *_ = until_refused(server, disk)
            ids += more
            server.signal(signal.SIGKILL)
            server.wait()
            disk.fill()
            again = started_again(world, disk, server.port)
            disk.free()
            server = again or Server(world, disk.data, *PATIENT, port=server.port, before=disk.enter)
            all_are_recorded(server, ids)
            claim(call(server, "blocking=true&result=true", n=4) == (200, '{"n":4}'), server.log())
        finally:
            server.stop()
