#!/usr/bin/env python3
"""Installs and starts each of scripts/baselines, and asks the oracles of single-file workloads about its answers.

    functions/tools/baselines.py [NAME…]
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import manifest
import oracle

BASELINES = manifest.FUNCTIONS.parent / "scripts" / "baselines"
WORKLOADS = ("faasdom/fact", "faasdom/netlatency", "sebs/graph-bfs")
LONG_BUILDS = ("gvisor", "wasmtime-serve")
CALLS = 2
KEEPS_CONTAINERS = "openwhisk"
# For longer than servers keep an idle connection unless told otherwise: Node.js' keeps it for 5 s.
RESTS_S = 7
KEEP_ALIVE_MS = 500
# Beyond this a stopped baseline's process is not ending but left.
GONE_WITHIN_S = 60


def main(names):
    # What was started is ended then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    counts = {"passed": 0, "failed": 0, "not checked": 0}
    for baseline in sorted(path.parent for path in BASELINES.glob("*/start.sh")):
        if names and baseline.name not in names:
            continue
        # What takes minutes to build is only looked for, unless it is named.
        look = [] if names or baseline.name not in LONG_BUILDS else ["--installed"]
        installed = subprocess.run([baseline / "install.sh", *look], capture_output=True, text=True)
        if installed.returncode and look:
            counts["not checked"] += 1
            print(f"{baseline.name}: not checked: it is not built: {baseline}/install.sh takes minutes", flush=True)
            continue
        if installed.returncode:
            counts["not checked"] += 1
            print(f"{baseline.name}: not checked: {installed.stderr.strip()[-500:]}", flush=True)
            continue
        for workload in manifest.found(WORKLOADS):
            for variant in workload.said["variants"]:
                outcome, what = check(baseline, workload, variant)
                if outcome is None:
                    continue
                counts[outcome] += 1
                print(f"{baseline.name} {workload} {variant['name']}: {what}", flush=True)
        if baseline.name == KEEPS_CONTAINERS:
            outcome, what = check_idle(baseline)
            counts[outcome] += 1
            print(f"{baseline.name}, idle containers: {what}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["failed"] or not counts["passed"] else 0


def check(baseline, workload, variant):
    """(passed, failed or not checked; the words for it); (None, …) where the baseline is not for the variant's language."""
    code = workload.folder / variant["functions"][0]["code"]
    with tempfile.TemporaryDirectory(prefix="flint-baseline-") as folder:
        data = Path(folder, "data")
        started = subprocess.run([baseline / "start.sh", data, code], capture_output=True, text=True)
        if started.returncode:
            why = started.stderr.strip()[-500:]
            if "this baseline runs no other" in why:
                return None, why
            return "not checked" if "cannot run here" in why else "failed", why
        try:
            said = dict(line.split("=", 1) for line in started.stdout.splitlines())
            url, ours = said["url"], descendants(int(said["pid"]))
            params = workload.params("test")
            rests = baseline.name == KEEPS_CONTAINERS and str(workload) == WORKLOADS[0]
            for number in range(CALLS):
                if number and rests:
                    time.sleep(RESTS_S)
                status, body = post(url, json.dumps(params).encode())
                if status != 200:
                    return "failed", f"status {status}: {body[:300]!r}"
                wrong = oracle.complaints(workload, "test", params, oracle.read(workload, "test", body))
                if wrong:
                    return "failed", "; ".join(wrong)
            ours |= descendants(int(said["pid"]))
        finally:
            stopped = subprocess.run([baseline / "stop.sh", data], capture_output=True, text=True)
        if stopped.returncode:
            return "failed", f"stop.sh: {stopped.stderr.strip()[-500:]}"
        left = remaining(ours)
        if left or data.exists():
            return "failed", f"stop.sh left processes {sorted(left)}" if left else "stop.sh left its folder"
    return "passed", "ok"


def check_idle(baseline):
    """Whether a container that nobody calls goes, with all that it left on the host, while the server stays."""
    workload = manifest.found(WORKLOADS[:1])[0]
    code = workload.folder / workload.said["variants"][0]["functions"][0]["code"]
    with tempfile.TemporaryDirectory(prefix="flint-baseline-") as folder:
        data = Path(folder, "data")
        environment = {**os.environ, "KEEP_ALIVE_MS": str(KEEP_ALIVE_MS)}
        started = subprocess.run([baseline / "start.sh", data, code], capture_output=True, text=True, env=environment)
        if started.returncode:
            why = started.stderr.strip()[-500:]
            return "not checked" if "cannot run here" in why else "failed", why
        try:
            said = dict(line.split("=", 1) for line in started.stdout.splitlines())
            server = int(said["pid"])
            status, body = post(said["url"], json.dumps(workload.params("test")).encode())
            if status != 200:
                return "failed", f"status {status}: {body[:300]!r}"
            made = {process for process in descendants(server) if process[0] != server}
            if not made:
                return "failed", "the call was served by no process of the server's"
            left = remaining(made)
            if left:
                return "failed", f"processes {sorted(left)} of a container stay, {KEEP_ALIVE_MS} ms after its call"
            if not gone(lambda: not list((data / "c").iterdir())):
                return "failed", "a container that went has left its folder"
            status, body = post(said["url"], json.dumps(workload.params("test")).encode())
            if status != 200:
                return "failed", f"after its container went: status {status}: {body[:300]!r}"
        finally:
            subprocess.run([baseline / "stop.sh", data], capture_output=True)
    return "passed", "ok"


def gone(is_gone):
    """Whether it comes to be so in time."""
    until = time.monotonic() + GONE_WITHIN_S
    while not is_gone():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def descendants(pid):
    """A process and all that it has started and are there, each with its start time: a number may be used again."""
    found, at = {pid}, [pid]
    while at:
        for task in Path(f"/proc/{at.pop()}/task").glob("*/children"):
            try:
                children = {int(child) for child in task.read_text().split()} - found
            except OSError:
                continue
            found |= children
            at += children
    return {(pid, start) for pid in found if (start := start_time(pid))}


def start_time(pid):
    """When it started, in ticks; None when it is gone or waits to be reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def remaining(processes):
    """Those that have not ended after a while."""
    def left():
        return {pid for pid, start in processes if start_time(pid) == start}

    gone(lambda: not left())
    return left()


def post(url, body):
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=120)
    connection.request("POST", place.path, body=body, headers={"content-type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
