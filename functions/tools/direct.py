#!/usr/bin/env python3
"""Runs every workload directly in its language's interpreter and asks its oracle; also whether the oracle refuses wrong answers.

    functions/tools/direct.py [--offline] [--real-back-ends] [--size SIZE] [WORD…]

A WORD is a suite, a name or suite/name. Without --size: test, and the sizes beside test, small and large. What cannot be run here is
said; the last line counts. --offline leaves out what would fetch packages that are not there yet.
"""

import argparse
import copy
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import backends
import manifest
import oracle
import shimmed


def main():
    # What was started is ended then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--offline", action="store_true")
    parser.add_argument("--real-back-ends", action="store_true")
    parser.add_argument("--size")
    parser.add_argument("word", nargs="*")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="flint-functions-") as scratch:
        run = Run(options, Path(scratch))
        try:
            for workload in manifest.found(options.word):
                run.workload(workload)
        finally:
            run.back_ends.close()
    print(f"{run.passed} passed, {run.failed} failed, {run.unchecked} not checked")
    sys.exit(1 if run.failed or not run.passed else 0)


class Run:
    def __init__(self, options, scratch):
        self.options, self.scratch = options, scratch
        self.back_ends = backends.BackEnds(scratch, real=options.real_back_ends)
        self.passed = self.failed = self.unchecked = 0

    def workload(self, workload):
        try:
            build(workload, self.options.offline)
            values = {name: self.back_ends.get(name) for name in workload.back_ends if name != "gateway"}
        except (backends.Unavailable, NotBuilt) as reason:
            self.unchecked += 1
            return print(f"{workload}: not checked: {reason}", flush=True)
        except RuntimeError as error:
            self.failed += 1
            return print(f"FAILED: {error}", flush=True)
        for variant in workload.said["variants"]:
            self.variant(workload, variant, values)

    def variant(self, workload, variant, values):
        title = f"{workload} {variant['name']}"
        (self.scratch / title.replace("/", "-")).mkdir()
        direct = shimmed.Direct(workload, variant, self.scratch / title.replace("/", "-"), lambda: shimmed.runtime_jar(self.scratch))
        direct.values.update(values)
        try:
            sizes = [self.options.size] if self.options.size else [s for s in workload.said["sizes"] if s not in ("small", "large")]
            for size in sizes:
                wrong = checked(workload, variant, size, direct)
                self.passed, self.failed = self.passed + (not wrong), self.failed + bool(wrong)
                print(f"{title} {size}: {'; '.join(wrong) or 'ok'}", flush=True)
        except shimmed.Missing as reason:
            self.unchecked += 1
            print(f"{title}: not checked: {reason}", flush=True)
        except Exception as error:  # one workload's failure is not the end of the others
            self.failed += 1
            print(f"{title}: FAILED: {type(error).__name__}: {error}", flush=True)
        finally:
            direct.close()


class NotBuilt(Exception):
    """Why the packages of a workload are not there."""


def build(workload, offline):
    command = workload.said.get("build")
    # What is compiled into WebAssembly is run as a Java program here, and the rest of it where it is built.
    if not command or any(function["kind"] == "wasm" for variant in workload.said["variants"] for function in variant["functions"]):
        return
    env = None
    if offline:
        env = backends.environment({})
        env.update(npm_config_offline="true", PIP_NO_INDEX="1", FLINT_OFFLINE="1")
    done = subprocess.run(command, cwd=workload.folder, capture_output=True, text=True, env=env)
    if done.returncode and offline:
        raise NotBuilt("its packages are not installed here, and it may not fetch them (--offline)")
    if done.returncode:
        raise RuntimeError(f"{workload}: {command}: {done.stderr.strip()[-1000:]}")


def checked(workload, variant, size, direct):
    """What is wrong, with the answer or with the oracle."""
    env = backends.environment(direct.values)
    backends.seed(workload, size, {name: direct.values[name] for name in workload.back_ends})
    params = workload.params(size, direct.values)
    answer = direct.call(workload.said["sizes"][size].get("entry", variant["entry"]), params)
    if isinstance(answer, bytes):  # of a program
        answer = oracle.read(workload, size, answer)
    wrong = oracle.complaints(workload, size, params, answer, env)
    if wrong:
        return wrong
    for what, other in spoiled(workload.said["sizes"][size].get("expect", {}), answer):
        if not oracle.complaints(workload, size, params, other, env):
            wrong.append(f"the oracle does not notice {what}")
    program = workload.said.get("oracle", {}).get("program")
    if program and size == "test":
        asked = {"size": "small", "params": workload.params("small", direct.values), "answer": answer}
        if not oracle.refused_by(workload, program, asked, env):
            wrong.append("the oracle's program takes the answer to another call for this one")
    return wrong


def spoiled(expect, answer):
    """The answer, made wrong at each place that the oracle looks at: (what was done, the answer)."""
    for pointer, rule in expect.items():
        if rule.get("absent"):
            continue
        right = oracle.at(answer, pointer)
        for value in (None, other_than(right)):
            yield f"{value!r:.40} at {pointer or 'the top'}", put(answer, pointer, value)


def other_than(value):
    """Something of the same kind that no rule can take for it: far away, for a number has bounds."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return -abs(value) - 1e15
    if isinstance(value, str):
        return "\0" + value[1:] + "\0"
    if isinstance(value, list):
        return [*value, None]
    return {**value, "\0": None}


def put(answer, pointer, value):
    if not pointer:
        return value
    answer = copy.deepcopy(answer)
    *way, last = pointer.split("/")[1:]
    place = answer
    for token in way:
        place = place[int(token)] if isinstance(place, list) else place[token]
    if isinstance(place, list):
        place[int(last)] = value
    else:
        place[last] = value
    return answer


main()
