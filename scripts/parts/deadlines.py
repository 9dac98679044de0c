#!/usr/bin/env python3
"""L2: how long beyond its time limit a call ends, whatever the function does.

    FLINT_BIN=$(scripts/build.sh) scripts/parts/deadlines.py [--calls N] [--limit MS]

Starts a server of its own and calls each function N times (20), one call after the other; every call gets a new instance,
since the last one has ended with its call. What is measured is what the record of the call says: from when the instance was
ready to when the call had ended, less the limit (1000 ms).
"""

import argparse
import base64
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "harness"))
from flint_server import Server, wait_for

# What never ends does so only when it is asked to (`go`), because a deploy may call a function to practise.
NODE = "function main(params) { while ('go' in params); return params; }"
PYTHON = """
import os

def main(params):
    held = []
    while 'go' in params:
        {}
    return {{}}
"""
JAVA = """
import java.util.Map;

public class Endless {
    public static Map<String, Object> main(Map<String, Object> params) {
        while (params.containsKey("go")) { }
        return params;
    }
}
"""
FORKS = """try:
            os.fork()
        except OSError:
            pass"""
HOLDS = """if not held:
            held.append(b'x' * (200 << 20))"""
STDIO = "#!/bin/sh\nwhile :; do :; done\n"
HTTP = """
import http.server
import os

class Endless(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        while True:
            pass

http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Endless).serve_forever()
"""


def source(kind, text, **fields):
    return {"kind": kind, "code": {"format": "source", "text": text}, **fields}


def python(body):
    return source("python:default", PYTHON.format(body))


PROGRAM = {"format": "executable", "base64": base64.b64encode(STDIO.encode()).decode()}
BOTH = ("spawn", "fork")
FUNCTIONS = [
    ("Node.js, endless loop", source("nodejs:default", NODE), BOTH),
    ("Python, endless loop", python("pass"), BOTH),
    ("Java, endless loop", source("java:default", JAVA), ("spawn",)),
    ("Python, fork bomb", python(FORKS), BOTH),
    ("Python, memory bomb", python("held.append(b'x' * (1 << 20))"), BOTH),
    ("Python, endless loop that holds 200 MiB", python(HOLDS), BOTH),
    ("stdio, endless loop", {"kind": "native", "contract": "stdio", "code": PROGRAM}, ("spawn",)),
    ("http, endless loop", source("python:default", HTTP, contract="http"), ("spawn",)),
]


def deploy(server, function, start, limit):
    limits = {"timeout_ms": limit, "memory_mb": 256, "processes": 64}
    answer = server.request("PUT", "/v1/functions/endless", {**function, "start": start, "limits": limits})
    assert answer.status in (200, 201), answer.json()["error"]["message"]
    started = answer.json()["function"]["prepared"]["strategy"]["start"]
    assert started == start, f"it is started by {started}"


def beyond(server, limit):
    """How many ms beyond its limit one call ended, and how: `None` and the reason if it did not begin."""
    _, answer = server.invoke("endless", {"go": True})

    def kept():
        found = server.request("GET", f"/v1/activations/{answer['activationId']}")
        return found.json() if found.status == 200 else None

    record = wait_for(kept, 60, "the record")
    timeline, ended = record["timeline"], "at its limit" if record.get("timed_out") else record["status"]
    if "ran" not in timeline:
        return None, ended
    ready = timeline.get("initialised", timeline["placed"])
    return max(0.0, (timeline["ran"] - ready) / 1000 - limit), ended


def measure(server, function, start, calls, limit):
    try:
        deploy(server, function, start, limit)
        ends = [beyond(server, limit) for _ in range(calls)]
    except (AssertionError, KeyError) as error:
        return f"not measured: {error}"
    times = [time for time, _ in ends if time is not None]
    if not times:
        return f"not measured: no call began ({ends[0][1]})"
    ways = [way for _, way in ends]
    said = ", ".join(f"{ways.count(way)} ended {way}".replace("_", " ") for way in sorted(set(ways)))
    return f"median {statistics.median(times):.1f} ms, worst {max(times):.1f} ms; of {len(times)} calls, {said}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--limit", type=int, default=1000, metavar="MS")
    options = parser.parse_args()
    with Server() as server:
        for what, function, starts in FUNCTIONS:
            for start in starts:
                print(f"L2 {what}, {start}: {measure(server, function, start, options.calls, options.limit)}", flush=True)


if __name__ == "__main__":
    main()
