#!/usr/bin/env python3
"""Starts Flint, makes thumbnails of six photographs with functions in three languages, shows what that took.

    demo.py --flint BINARY [--stay] [--listen ADDR:PORT] [--data-dir DIR]

Without --stay: on a free port, with data of its own; the server is stopped at the end. Exit code 0 when every
thumbnail is what it should be, 1 otherwise. With --stay: on 127.0.0.1:3233 with ./data, and the server stays up until
Ctrl-C. Everything goes through the command line, as a user would do it.
"""

import argparse
import ctypes
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "functions" / "samples"
PHOTOS = sorted(p for p in (SAMPLES / "photos").iterdir() if p.suffix in (".jpg", ".png"))
OUT = ROOT / "out"

DEFAULT_LISTEN = "127.0.0.1:3233"
LONGEST_SIDE = 128
ROUNDS = 2
READY_WITHIN_S = 120
STOP_WITHIN_S = 60

# name, what `flint deploy` is given
RESIZERS = [
    ("resize-node", ["resize-node"]),
    ("resize-python", ["resize-python"]),
    ("resize-java", ["resize-java/resize.jar", "--main", "Resize#main"]),
]
HELLOS = [
    ("hello-node", ["hello-node/hello.js"]),
    ("hello-python", ["hello-python/hello.py"]),
    ("hello-java", ["hello-java/hello.jar", "--main", "Hello#main"]),
]
CAT = ("cat", ["cat/cat.sh", "--contract", "stdio"])


class DemoError(Exception):
    """Something did not go as it should; the text says what and what to do."""


class Server:
    """`flint up` as a child process."""

    def __init__(self, flint, listen, data_dir, log_path):
        self.listen, self.log_path = listen, log_path
        self.url = f"http://{listen}"
        with open(log_path, "wb") as log:
            self.process = subprocess.Popen(
                [flint, "up", "--listen", listen, "--data-dir", str(data_dir)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C comes to this script, which stops the server in order
                preexec_fn=terminate_with_parent,
            )

    def wait_until_ready(self):
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise DemoError(f"`flint up` ended with exit code {self.process.returncode}; its log:\n{self.log_tail()}")
            if answers_ready(self.url):
                return
            time.sleep(0.02)
        raise DemoError(f"{self.url}/ready did not answer within {READY_WITHIN_S} s; the server's log:\n{self.log_tail()}")

    def log_tail(self, lines=20):
        text = Path(self.log_path).read_text(errors="replace").splitlines()
        return "\n".join(f"    {line}" for line in text[-lines:]) or "    (empty)"

    def stop(self):
        if self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise DemoError(f"the server did not stop within {STOP_WITHIN_S} s and was killed") from None


def terminate_with_parent():
    """The server does not outlive this script, whatever ends it (PR_SET_PDEATHSIG is 1)."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def answers_ready(url):
    try:
        with urllib.request.urlopen(f"{url}/ready", timeout=2) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


class Cli:
    def __init__(self, flint, url):
        self.command = [flint, "--url", url, "--json"]

    def __call__(self, *arguments):
        done = subprocess.run([*self.command, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip() or "nothing").replace("\n", "\n    ")
            raise DemoError(f"`flint {' '.join(arguments)}` ended with exit code {done.returncode} and said\n    {said}")
        try:
            return json.loads(done.stdout)
        except ValueError as error:
            raise DemoError(f"`flint --json {' '.join(arguments)}` did not print JSON ({error}):\n    {done.stdout[:500]}") from None


def deploy(cli, name, what):
    path, *options = what
    began = time.monotonic()
    cli("deploy", str(SAMPLES / path), "--name", name, *options)
    print(f"  {name:<14} deployed in {time.monotonic() - began:5.2f} s", flush=True)


def latency_ms(record):
    """From the arrival of the call to the function's answer, as the server recorded it, and the part until its code was loaded."""
    timeline = record.get("timeline") or {}
    until_answer = timeline["ran"] / 1000 if "ran" in timeline else record["duration_us"] / 1000
    until_loaded = timeline["initialised"] / 1000 if "initialised" in timeline else None
    return until_answer, until_loaded


def resize_all(cli, name, out):
    """Calls one function for every photograph; returns the latencies in the order of the calls."""
    out.mkdir(parents=True, exist_ok=True)
    calls = []
    for _ in range(ROUNDS):
        for photo in PHOTOS:
            thumbnail = out / photo.name
            thumbnail.unlink(missing_ok=True)
            record = cli("invoke", name, "-p", f"max={LONGEST_SIDE}", "-f", str(photo), "-o", str(thumbnail))
            calls.append(latency_ms(record))
    return calls


def wrong_with(photo, thumbnail):
    """What is wrong with a thumbnail, or None. Decodes all of it and compares it with the picture."""
    from PIL import Image, ImageChops, ImageStat

    if not thumbnail.is_file():
        return "no file"
    try:
        made = Image.open(thumbnail)
        made.load()
    except (OSError, SyntaxError) as error:
        return f"not a picture ({error})"
    original = Image.open(photo)
    if made.format != original.format:
        return f"{made.format} instead of {original.format}"
    scale = LONGEST_SIDE / max(original.size)
    if max(made.size) != LONGEST_SIDE or any(abs(a - b * scale) > 1 for a, b in zip(made.size, original.size)):
        return f"{made.width}x{made.height} for a picture of {original.width}x{original.height}"
    expected = original.convert("RGB").resize(made.size, Image.Resampling.BOX)
    difference = max(ImageStat.Stat(ImageChops.difference(made.convert("RGB"), expected)).mean)
    if difference > 24:  # of 255; another filter or JPEG quality stays under 5, a converted colour profile under 15
        return f"another picture (mean difference {difference:.0f} of 255)"
    return None


def wrong_answers(cli):
    """Calls the samples that make no pictures; one line for each answer that is not what it should be."""
    wrong = []
    for name, _ in HELLOS:
        result = cli("invoke", name, "-p", "name=Flint").get("result")
        if result != {"greeting": "Hello, Flint!"}:
            wrong.append(f"{name} answered {json.dumps(result)}")
    name, _ = CAT
    text, copy = SAMPLES / "photos" / "README.md", OUT / "cat.md"
    copy.unlink(missing_ok=True)
    cli("invoke", name, "-f", str(text), "-o", str(copy))
    if not copy.is_file() or copy.read_bytes() != text.read_bytes():
        wrong.append(f"{name} did not answer with what it was sent ({copy.relative_to(ROOT)})")
    return wrong


def show_table(rows):
    header = ("function", "cold ms", "of it start", "warm ms", "calls", "thumbnails in")
    lines = [header, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    print()
    for i, line in enumerate(lines):
        cells = [cell.ljust(w) if j in (0, 5) else cell.rjust(w) for j, (cell, w) in enumerate(zip(line, widths))]
        print("  " + "  ".join(cells).rstrip())
        if i == 0:
            print("  " + "  ".join("-" * w for w in widths))
    print("\n  cold = the first call after the deploy, warm = the median of the others; from the arrival of the call to")
    print("  the function's answer, as the activation records say.", flush=True)


def what_next(flint, url, data_dir, log_path):
    elsewhere = "" if url == f"http://{DEFAULT_LISTEN}" else f"\n  export FLINT_URL={url}"
    print(
        f"""
Flint is up at {url}; Ctrl-C stops it. In another terminal, for example:

  alias flint={flint}{elsewhere}
  flint list
  flint invoke hello-python -p name=you
  flint invoke resize-node -f {(PHOTOS[0]).relative_to(ROOT)} -o thumbnail.png
  flint explain resize-python            which strategy it got, and why
  flint activations                      what ran; then: flint logs ID, flint explain ID
  flint dev functions/samples/hello-node/hello.js      redeploys and calls on every save
  flint doctor                           what this host can and cannot run

`flint` needs no key here. For other clients, the guest key:   KEY=$(sed -n 's/.* --auth //p' {log_path})
`flint namespace`, `flint backup` and the like also need:      --data-dir {data_dir}
""",
        flush=True,
    )


def demonstrate(flint, url):
    """Deploys, calls, checks; returns what was wrong."""
    cli = Cli(flint, url)
    print(f"Flint answers at {url}. The functions:")
    for name, what in [*HELLOS, CAT, *RESIZERS]:
        deploy(cli, name, what)
    wrong = wrong_answers(cli)

    print(f"\n{len(PHOTOS)} photographs, longest side {LONGEST_SIDE}, through {len(RESIZERS)} functions …", flush=True)
    rows = []
    for name, _ in RESIZERS:
        out = OUT / name
        calls = resize_all(cli, name, out)
        (cold, start), warm = calls[0], statistics.median(total for total, _ in calls[1:])
        start = "-" if start is None else f"{start:.1f}"
        rows.append((name, f"{cold:.1f}", start, f"{warm:.1f}", str(len(calls)), f"{out.relative_to(ROOT)}/"))
        for photo in PHOTOS:
            reason = wrong_with(photo, out / photo.name)
            if reason:
                wrong.append(f"{(out / photo.name).relative_to(ROOT)}: {reason}")
    show_table(rows)
    return wrong


def split_address(listen):
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise DemoError(f"--listen {listen}: say it as ADDRESS:PORT, for example {DEFAULT_LISTEN}")
    return host.strip("[]"), int(port)


def refuse_busy_address(listen):
    host, port = split_address(listen)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            who = "another Flint answers there" if answers_ready(f"http://{listen}") else error.strerror
            raise DemoError(f"cannot listen on {listen}: {who}. Stop it, or choose another port: make run LISTEN=127.0.0.1:4233") from None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flint", help="the binary")
    parser.add_argument("--stay", action="store_true", help="stay up when done")
    parser.add_argument("--listen", metavar="ADDR:PORT")
    parser.add_argument("--data-dir", type=Path, metavar="DIR")
    parser.add_argument("--check", action="store_true", help="only look whether the address is free")
    return parser.parse_args()


def run(options):
    listen = options.listen or (DEFAULT_LISTEN if options.stay else None)
    if listen:
        refuse_busy_address(listen)
    if options.check:
        return 0

    temporary = None
    data_dir = options.data_dir or (ROOT / "data" if options.stay else None)
    if data_dir is None:
        temporary = data_dir = Path(tempfile.mkdtemp(prefix="flint-demo-"))
    OUT.mkdir(exist_ok=True)
    server = Server(options.flint, listen or f"127.0.0.1:{free_port()}", data_dir, OUT / "flint.log")
    try:
        server.wait_until_ready()
        wrong = demonstrate(options.flint, server.url)
        for line in wrong:
            print(f"wrong: {line}", file=sys.stderr)
        if not wrong:
            print(f"\n{len(RESIZERS) * len(PHOTOS)} thumbnails checked: right format, size and content.", flush=True)
        if options.stay:
            what_next(options.flint, server.url, data_dir, server.log_path)
            server.process.wait()
            raise DemoError(f"the server ended by itself, exit code {server.process.returncode}; its log:\n{server.log_tail()}")
        return 1 if wrong else 0
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C does not cut the stop short
        server.stop()
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = arguments()
    try:
        return run(options)
    except KeyboardInterrupt:
        print("\nstopped")
        return 0 if options.stay else 130
    except DemoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
