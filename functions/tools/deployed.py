#!/usr/bin/env python3
"""Deploys every workload to a Flint server, calls it there, and asks its oracle.

    FLINT_BIN=… functions/tools/deployed.py [--size SIZE] [--calls N] [WORD…]

A WORD is a suite, a name or suite/name. Server, back ends and their network are started here and ended here; what needs a back end needs
root. Without --size: test, and the sizes beside test, small and large. What cannot be run is said; the last line counts.
"""

import argparse
import base64
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import backends
import manifest
import oracle

# The public key of the namespace guest, which is there as long as a server listens on loopback only.
GUEST = "23bc46b1-71f6-4ed5-8c54-816aa4f8c502:123zO3xZCLrMN6v2BKK1dXYFpXlPkccOFqm12CdAsMgRU4VrNZ9lyGVCGuMDGIwP"
READY_WITHIN_S = 120
ENDED_WITHIN_S = 60


class Flint:
    """`flint up` on a free port of loopback."""

    def __init__(self, program, scratch, settings):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.program, self.url, self.log = program, f"http://127.0.0.1:{self.port}", scratch / "flint.log"
        options = [part for setting in settings for part in ("--set", setting)]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [program, "up", "--listen", f"127.0.0.1:{self.port}", "--data-dir", str(scratch / "data"), *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait_until_ready(self):
        until = time.monotonic() + READY_WITHIN_S
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"flint up: {self.log.read_text()[-2000:]}")
            time.sleep(0.1)

    def answers(self):
        try:
            return self.request("GET", "/ready")[0] == 200
        except OSError:
            return False

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        headers = {"authorization": f"Basic {base64.b64encode(GUEST.encode()).decode()}", "content-type": "application/json"}
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def deploy(self, workload, function, values):
        command = [self.program, "--url", self.url, "--auth", GUEST, "deploy", str(workload.folder / function["code"]), "--name", function["name"]]
        for key, option in (("main", "--main"), ("contract", "--contract"), ("memory_mb", "--memory"), ("network", "--network"),
                            ("concurrency", "--concurrency")):
            if key in function:
                command += [option, str(function[key])]
        if function["kind"] not in ("native", "wasm"):
            command += ["--kind", workload.kind(function)]
        command += ["--timeout", f"{function.get('timeout_s', 60)}s"]
        for name, value in workload.env(function, values).items():
            command += ["--init-param", f"{name}={json.dumps(value)}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"deploy {function['name']}: {done.stderr.strip()}")
        return done.stdout + done.stderr

    def call(self, name, body):
        status, answer = self.request("POST", f"/v1/functions/{name}/invoke", body)
        if status != 200:
            raise RuntimeError(f"{name} answered with status {status}: {answer[:500].decode('utf-8', 'replace')}")
        return answer

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(ENDED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"flint up did not end within {ENDED_WITHIN_S} s of SIGTERM and was killed") from None


def main():
    # What was started is ended then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size")
    parser.add_argument("--calls", type=int, default=2)
    parser.add_argument("word", nargs="*")
    options = parser.parse_args()
    program = os.environ.get("FLINT_BIN") or sys.exit("FLINT_BIN is not set: the flint program")
    counts = {"passed": 0, "failed": 0, "not checked": 0}
    # Whatever fails on the way: what was started before it is ended, the last one first.
    with ExitStack() as started:
        scratch = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="flint-functions-")))
        workloads = manifest.found(options.word)
        network, no_network = made_network(scratch, started)
        settings = {setting for workload in workloads for setting in workload.said.get("server", [])}
        flint = Flint(program, scratch, sorted(settings | ({"network.allow_private=true"} if network else set())))
        started.callback(flint.close)
        flint.wait_until_ready()
        ends = backends.BackEnds(scratch, real=True, network=network, extra={"FLINT_URL": flint.url, "FLINT_AUTH": GUEST})
        started.callback(ends.close)
        for workload in workloads:
            try:
                ready(workload, ends, no_network)
            except backends.Unavailable as reason:
                counts["not checked"] += 1
                print(f"{workload}: not checked: {reason}", flush=True)
            except RuntimeError as error:
                counts["failed"] += 1
                print(f"{workload}: FAILED: {error}", flush=True)
            else:
                for variant in workload.said["variants"]:
                    check(workload, variant, flint, ends, options, counts)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    sys.exit(1 if counts["failed"] or not counts["passed"] else 0)


def made_network(scratch, started):
    """(the network in which functions reach back ends, None), or (None, why there is none)."""
    network = scratch / "network"
    done = subprocess.run([backends.SCRIPTS / "network/start.sh", network], capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip()
    started.callback(subprocess.run, [backends.SCRIPTS / "network/stop.sh", network], check=True)
    return network, None


def ready(workload, ends, no_network):
    """Builds it and starts its back ends. Unavailable: what this machine lacks; a build that fails is a failure."""
    command = workload.said.get("build")
    if command:
        done = subprocess.run(command, cwd=workload.folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"build: {done.stderr.strip()[-1000:]}")
    if workload.back_ends and no_network is not None:
        raise backends.Unavailable(no_network)
    for name in workload.back_ends:
        ends.get(name)


def check(workload, variant, flint, ends, options, counts):
    sizes = [options.size] if options.size else [s for s in workload.said["sizes"] if s not in ("small", "large")]
    values = {name: ends.get(name) for name in workload.back_ends}
    title = f"{workload} {variant['name']}"
    try:
        for function in variant["functions"]:
            flint.deploy(workload, function, values)
        for size in sizes:
            backends.seed(workload, size, values)
            params = workload.params(size, values)
            entry = workload.said["sizes"][size].get("entry", variant["entry"])
            wrong = []
            for _ in range(options.calls):
                body = json.dumps(params).encode()
                for part in variant.get("sequences", {}).get(entry, [entry]):
                    body = flint.call(part, body)
                wrong += oracle.complaints(workload, size, params, oracle.read(workload, size, body), backends.environment(values))
            counts["failed" if wrong else "passed"] += 1
            print(f"{title} {size}: {'; '.join(wrong) or 'ok'}", flush=True)
    except Exception as error:  # one workload's failure is not the end of the others
        counts["failed"] += 1
        print(f"{title}: FAILED: {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
