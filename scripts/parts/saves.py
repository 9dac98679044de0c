#!/usr/bin/env python3
"""S18: how long after a file was saved `flint dev` has its answer.

    FLINT_BIN=$(scripts/build.sh) scripts/parts/saves.py [--saves N]

Starts a server of its own, and `flint dev` on a function in Node.js, Python and Java, one after the other. Saves each file
N times (20), each time with another answer in it, and takes what `flint dev` says of that save (`answer_us`). The first
deploy, before any save, does not count.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "harness"))
from flint_server import FLINT, Server

FUNCTIONS = [
    ("Node.js", "save.js", "exports.main = () => ({ n: %d });\n"),
    ("Python", "save.py", "def main(params):\n    return {'n': %d}\n"),
    (
        "Java",
        "Save.java",
        "import java.util.Map;\n"
        "public class Save {\n"
        "    public static Map<String, Object> main(Map<String, Object> params) { return Map.of(\"n\", %d); }\n"
        "}\n",
    ),
]
# Between an answer and the next save: who edits has read the answer. A Java compiler that is started ahead is warm by then; a save that
# comes sooner waits for it.
PAUSE_S = 2
PATIENCE_S = 120


def answer(dev, number):
    """ms from the save to the answer `number`."""
    patience = threading.Timer(PATIENCE_S, dev.kill)
    patience.start()
    try:
        for line in dev.stdout:
            if not line.startswith("{"):
                continue  # what it tells people
            told = json.loads(line)
            assert told.get("status") == "success", told.get("error", {}).get("message", told)
            assert json.loads(told["text"])["n"] == number, told
            return told["answer_us"] / 1000
    finally:
        patience.cancel()
    raise AssertionError(f"flint dev had no answer within {PATIENCE_S} s")


def measure(server, name, code, saves):
    path = server.scratch / "saves" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(code % 0)
    dev = subprocess.Popen(
        [FLINT, "dev", str(path), "--json"],
        env={**os.environ, "FLINT_URL": server.url},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        answer(dev, 0)
        times = []
        for number in range(1, saves + 1):
            time.sleep(PAUSE_S)
            path.write_text(code % number)
            times.append(answer(dev, number))
    except AssertionError as error:
        return f"not measured: {error}"
    finally:
        dev.kill()
        dev.wait()
    return f"median {statistics.median(times):.1f} ms, worst {max(times):.1f} ms; of {saves} saves"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--saves", type=int, default=20)
    options = parser.parse_args()
    with Server() as server:
        for language, name, code in FUNCTIONS:
            print(f"S18 {language}: {measure(server, name, code, options.saves)}", flush=True)


if __name__ == "__main__":
    main()
