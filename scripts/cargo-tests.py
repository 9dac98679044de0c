#!/usr/bin/env python3
"""Every test of the workspace, as `cargo test --workspace` runs them, but one test binary more at once than there are processors, those that took
longest the last time first: most of their time they wait for processes to start and for deadlines to pass. What a test says that it did
not check here ("not checked: …" on its output) is repeated at the end.

    scripts/cargo-tests.py [OPTION OF CARGO…]     e.g. --locked
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

# A bound on hanging, not a promise of speed.
HANGS_AFTER = 900


def build(options):
    """Builds the tests; gives the executable, the package's directory and a name of each."""
    command = ["cargo", "test", "--workspace", "--no-run", "--message-format=json-render-diagnostics", *options]
    built = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if built.returncode != 0:
        sys.exit(built.returncode)
    found = []
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message.get("executable") and message["profile"]["test"]:
            directory = Path(message["manifest_path"]).parent
            found.append((message["executable"], directory, f"{directory.name} {message['target']['name']}"))
    return found


def run(executable, directory):
    """Output, success and seconds of one test binary, run where cargo runs it. One that hangs is ended."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [executable, "--show-output"],
            cwd=directory,
            env={**os.environ, "CARGO_MANIFEST_DIR": str(directory)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            status = process.wait(HANGS_AFTER)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            status = f"not over after {HANGS_AFTER} s: a test without \"ok\" above hangs"
        output.seek(0)
        text = output.read().decode(errors="replace").strip()
    return text if isinstance(status, int) else f"{text}\n{status}", status == 0, time.monotonic() - began


def without_output_of_passed(text):
    """What a test binary says, but for what tests that passed have said; and the lines of these about what they did not check, by test."""
    said = re.search(r"\nsuccesses:\n.*?(?=\nfailures:\n|\ntest result: |\Z)", text, re.S)
    if not said:
        return text, []
    unchecked, test = [], ""
    for line in said[0].splitlines():
        if header := re.fullmatch(r"---- (\S+) stdout ----", line):
            test = header[1]
        elif line.startswith("not checked"):
            unchecked.append(f"{test}: {line}")
    return text[: said.start()] + text[said.end() :], unchecked


def times():
    """Where the seconds of each test binary are kept from run to run, and those of the last run."""
    target = os.environ.get("CARGO_TARGET_DIR") or Path(__file__).parent.parent / "target"
    path = Path(target) / "test-seconds.json"
    try:
        return path, json.loads(path.read_text())
    except (OSError, ValueError):
        return path, {}


def main(options):
    tests = build(options)
    path, last = times()
    tests.sort(key=lambda test: -last.get(test[2], HANGS_AFTER))
    at_once = len(os.sched_getaffinity(0)) + 1
    print(f"{len(tests)} test binaries, {at_once} at once", flush=True)
    failed, unchecked = [], []
    with ThreadPoolExecutor(at_once) as pool:
        running = {pool.submit(run, executable, directory): name for executable, directory, name in tests}
        for future in as_completed(running):
            output, passed, seconds = future.result()
            output, skipped = without_output_of_passed(output)
            unchecked += (f"{running[future]}: {line}" for line in skipped)
            print(f"\n--- {running[future]} ({seconds:.1f} s)\n{output}", flush=True)
            last[running[future]] = seconds
            if not passed:
                failed.append(running[future])
    path.write_text(json.dumps(last))
    if subprocess.run(["cargo", "test", "--workspace", "--doc", *options], check=False).returncode != 0:
        failed.append("documentation")
    print(f"\nNOT CHECKED on this host: {len(unchecked) or 'nothing'}")
    for line in sorted(unchecked):
        print(f"  {line}")
    for name in failed:
        print(f"FAILED: {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
