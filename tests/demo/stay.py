"""`make run`, checked: it stays up, what it says to try next works, and Ctrl-C ends all of it."""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from types import SimpleNamespace

from flint_server import FLINT, assert_nothing_left, free_port, group_of, offspring, parent, wait_for

ROOT = Path(__file__).resolve().parents[2]
# Bounds on hanging. It deploys six functions, calls each several times, and may have to build them before.
STAYS_WITHIN_S = 1800
STOPS_WITHIN_S = 180
# Of the commands that it names, those that end by themselves and write nothing to this directory.
TRIED = ("alias", "export", "flint list", "flint invoke hello-python", "flint explain", "flint activations")


def server_of(demo):
    """The process of `flint up`."""
    binary = os.path.realpath(FLINT)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if parent(pid) == demo.pid and os.path.realpath(f"/proc/{pid}/exe") == binary:
                return int(pid)
        except (OSError, TypeError):
            pass
    return None


def run(command, environment):
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{command}\nended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def try_what_it_names(said, environment):
    """As a user would: by an alias, in another terminal."""
    indented = (line.strip() for line in said.splitlines() if line.startswith("  "))
    # A comment may follow.
    commands = [re.split(r"\s{2,}", line)[0] for line in indented if line.startswith(TRIED)]
    assert len(commands) == len(TRIED), f"not all of {TRIED}: {commands}\n{said}"
    answers = run("\n".join(["set -e", "shopt -s expand_aliases", *commands]), environment)
    for part in ("hello-python", "Hello, you!", "resize-python"):
        assert part in answers, f"no {part!r} in:\n{answers}"


def try_the_key(said, url, environment):
    recipe = re.search(r"KEY=\$\(.*\)", said)
    assert recipe, f"there is no recipe for the key:\n{said}"
    key = run(f"{recipe[0]}; printf %s \"$KEY\"", environment)
    assert re.fullmatch(r"[0-9a-f-]{36}:\w{64}", key), f"{recipe[0]} gives no key, but {key!r}"
    authorization = f"Basic {base64.b64encode(key.encode()).decode()}"
    request = urllib.request.Request(f"{url}/api/v1/namespaces", headers={"Authorization": authorization})
    with urllib.request.urlopen(request, timeout=120) as answer:
        assert json.load(answer) == ["guest"]


def answers(url):
    try:
        with urllib.request.urlopen(f"{url}/ready", timeout=120) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def hear_interrupts():
    """What runs in the background of a script ignores them, and hands that on to all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def check_make(options):
    """`make run` is what is tested here."""
    if not shutil.which("make"):
        print("not checked: what `make run` starts, there is no make here", flush=True)
        return
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "--dry-run", "--no-print-directory", "run", f"LISTEN={options[1]}", f"DATA_DIR={options[3]}"]
    shown = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert shown.stdout.strip() == " ".join(["scripts/demo.sh --stay", *options]), shown


def main():
    scratch = Path(tempfile.mkdtemp(prefix="flint-demo-stay-"))
    listen, mark = f"127.0.0.1:{free_port()}", f"flint-test-{uuid.uuid4()}"
    url, output = f"http://{listen}", scratch / "output"
    options = ["--listen", listen, "--data-dir", str(scratch / "data")]
    check_make(options)
    # Neither address nor key of the caller's own Flint.
    environment = {name: value for name, value in os.environ.items() if name not in ("FLINT_URL", "FLINT_AUTH")}
    environment.update({"FLINT_BIN": os.path.realpath(FLINT), "XDG_CONFIG_HOME": str(scratch / "home")})
    with open(output, "wb") as file:
        demo = subprocess.Popen(
            ["scripts/demo.sh", "--stay", *options],
            cwd=ROOT,
            env={**environment, "FLINT_TEST_MARK": mark},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            preexec_fn=hear_interrupts,
        )

    def said():
        return output.read_text(errors="replace")

    try:

        def stays():
            assert demo.poll() is None, f"it ended with {demo.returncode}:\n{said()}"
            # The last line of what it says.
            return "also need:" in said()

        wait_for(stays, STAYS_WITHIN_S, "what to try next")
        assert answers(url), f"nothing answers at {url}:\n{said()}"
        server = SimpleNamespace(mark=mark, scratch=scratch, data_dir=scratch / "data", group=None, offspring=set(), log_text=said)
        server.process = SimpleNamespace(pid=server_of(demo), returncode=None)
        assert server.process.pid, f"there is no server:\n{said()}"
        server.group = group_of(server)
        try_what_it_names(said(), environment)
        try_the_key(said(), url, environment)
        assert demo.poll() is None, f"it ended with {demo.returncode}:\n{said()}"
        server.offspring |= offspring(server.process.pid)
        demo.send_signal(signal.SIGINT)
        assert demo.wait(STOPS_WITHIN_S) == 0, f"it ended with {demo.returncode}:\n{said()}"
        assert said().rstrip().endswith("stopped"), said()
        assert not answers(url), f"something answers at {url}"
        assert_nothing_left(server)
    finally:
        if demo.poll() is None:
            demo.terminate()
            demo.wait(STOPS_WITHIN_S)
        shutil.rmtree(scratch, ignore_errors=True)
    print("make run: stays up, what it says to try next works, Ctrl-C leaves nothing")


if __name__ == "__main__":
    main()
