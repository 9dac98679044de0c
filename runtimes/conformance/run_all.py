"""Runs each shim's own tests with every interpreter found, and the contract's, as many programmes at once as there are processors; see ../test.sh."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import shims

RUNTIMES = Path(__file__).resolve().parent.parent


def run(title, argv, cwd, passed_failed, env=None):
    """Runs a test programme; prints its output only when something is wrong."""
    done = subprocess.run(argv, cwd=cwd, env=dict(os.environ, **(env or {})), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    passed, failed = passed_failed(done.stdout)
    if done.returncode != 0 and failed == 0:
        failed = 1  # it did not even report
    verdict = f"{title}: {passed} passed, {failed} failed"
    print(f"{verdict}\n{done.stdout}" if failed else verdict, flush=True)
    return passed, failed


def number(pattern, text):
    match = re.search(pattern, text, re.MULTILINE)
    return int(match.group(1)) if match else 0


def node_counts(text):
    return number(r"^# pass (\d+)", text), number(r"^# fail (\d+)", text)


def unittest_counts(text):
    failed = number(r"^FAILED .*failures=(\d+)", text) + number(r"^FAILED .*errors=(\d+)", text)
    return number(r"^Ran (\d+) tests?", text) - failed, failed


def plain_counts(text):
    return number(r"^(\d+) passed", text), number(r"passed, (\d+) failed", text)


def jobs():
    """The arguments of `run` for each programme; those that take longest come first."""
    zygotes = [sys.executable, str(RUNTIMES / "conformance/test_zygote.py")]
    yield "zygotes, all that can be forked", zygotes, RUNTIMES, unittest_counts
    contract = [sys.executable, str(RUNTIMES / "conformance/test_contract.py")]
    yield "contract, all of them", contract, RUNTIMES, unittest_counts
    for shim in shims.found(None, ["nodejs"]):
        tests = sorted(str(path) for path in (RUNTIMES / "nodejs/test").glob("*.test.js"))
        yield shim.name, [shim.argv[0], "--test", "--test-reporter=tap", *tests], RUNTIMES / "nodejs", node_counts
    for version, python in shims.pythons():
        yield f"python {version}", [python, "-m", "unittest", "discover", "-s", "tests"], RUNTIMES / "python", unittest_counts
    for version, home in shims.jdks():
        yield f"java {version}", [str(RUNTIMES / "java/test.sh")], RUNTIMES / "java", plain_counts, {"JAVA_HOME": home}
    loops = [sys.executable, str(RUNTIMES / "conformance/test_action_loop.py")]
    yield f"ActionLoop, {' and '.join(shims.loops())}", loops, RUNTIMES, unittest_counts
    clones = [sys.executable, str(RUNTIMES / "nodejs/test/test_clones.py")]
    yield "clones of nodejs", clones, RUNTIMES, unittest_counts


def main():
    shims.report_missing()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(lambda job: run(*job), jobs()))
    passed, failed = map(sum, zip(*results))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
