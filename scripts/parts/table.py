#!/usr/bin/env python3
"""Measures Flint's parts by themselves and prints one table: promise, target, measured, verdict.

    scripts/bench-parts.sh          builds what it needs and runs this
    scripts/parts/table.py --list   the commands, without running them

The promises, their targets and which figure is judged (the last word of the promise: `p50`, `worst`, `kept`) are those of
SPECIFICATION.md's table "The parts by themselves". A command says its figures in lines of the form

    PROMISE [WHAT]: NAME VALUE UNIT, NAME VALUE UNIT …[; further words]

Further words stand behind the verdict. A target that was missed while others had the processors, or the hypervisor took
their time, is not judged. The exit code is 1 if a command failed or has no figure that its target is about.
"""

import operator
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = {
    "setup_cost": "flint-sandbox",
    "store_bench": "flint-store-sqlite",
    "dispatch_cost": "flint-scheduler",
    "call_cost": "flint-executor-process",
    "front_cost": "flint-api-openwhisk",
    "accept_rate": "flint-controller",
}
COMMANDS = [
    "setup_cost",
    "store_bench --seconds 5 --only written",
    "store_bench --seconds 5 --only append",
    "store_bench --seconds 5 --only enqueue",
    "dispatch_cost",
    "call_cost",
    "front_cost",
    "accept_rate",
    "scripts/parts/deadlines.py --calls 10",
    "scripts/parts/saves.py --saves 10",
]
FIGURE = r"(\w+) ([\d.]+) ?([^\d\s,;]+)"
LINE = re.compile(
    rf"(?P<promise>[A-Z]\d+)(?: (?P<what>.+?))?: (?P<said>{FIGURE}(?:, {FIGURE})*|not measured: .*)(?:; (?P<further>.*))?"
)
MEETS = {"≤": operator.le, "<": operator.lt, "≥": operator.ge}
# The shares of the processors beyond which a host is too noisy, as in `flint bench`.
MOST_BUSY, MOST_STOLEN = 0.10, 0.05


def promises():
    """The rows of the specification's table: number, promise, target, command."""
    table = (ROOT / "SPECIFICATION.md").read_text().partition("\nThe parts by themselves")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if re.match(r"\| [A-Z]\d", line)]
    return {number: (promise, target, command) for number, promise, target, _, command in rows}


def cargo(verb, name, *arguments):
    command = ["cargo", verb, "--release", "--quiet", "-p", EXAMPLES[name], "--example", name]
    return command + (["--", *arguments] if arguments else [])


def command_of(text):
    name, *arguments = shlex.split(text)
    return cargo("run", name, *arguments) if name in EXAMPLES else [name, *arguments]


class Host:
    """How busy the processors are."""

    def __init__(self):
        self.before = self.times()

    @staticmethod
    def times():
        return [int(time) for time in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]

    def since(self):
        """Shares of the time since the last question: used, and taken by the hypervisor."""
        now = self.times()
        spent = [after - before for after, before in zip(now, self.before)]
        self.before = now
        idle, stolen, whole = spent[3] + spent[4], spent[7], max(1, sum(spent))
        return (whole - idle - stolen) / whole, stolen / whole

    def look(self):
        """A look while nothing of this runs."""
        time.sleep(1)  # what was measured last has its end
        self.since()
        time.sleep(0.25)
        return self.since()


def describe():
    model = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    cores, release = len(os.sched_getaffinity(0)), os.uname().release
    return f"{model[1] if model else os.uname().machine}, {cores} processors, Linux {release}"


def run(command):
    """What one command says, and what went wrong."""
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    except OSError as error:
        return "", str(error)
    return done.stdout, f"ended with {done.returncode}" if done.returncode else None


def brief(promise):
    return textwrap.shorten(promise, 72, placeholder=" …")


def judged(promise, target, figures, noise):
    """The verdict on the figures of one line."""
    wanted = re.fullmatch(r"([≤<≥]) ([\d,.]+) ?(.+)", target)
    if not wanted:
        return "–"
    name, unit = promise.rpartition(", ")[2], wanted[3]
    value = next((float(value) for said, value, of in figures if (said, of) == (name, unit)), None)
    if value is None:
        return f"failed: it has no figure '{name}' in {unit}"
    if MEETS[wanted[1]](value, float(wanted[2].replace(",", ""))):
        return "met"
    return f"host too noisy: {noise}" if noise else "MISSED"


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(shlex.join(command_of(text)) for text in COMMANDS))
        return 0
    for name in EXAMPLES:
        subprocess.run(cargo("build", name), cwd=ROOT, check=True)
    specified, host, looks = promises(), Host(), []
    began, found, failed = os.getloadavg(), [], []
    looks.append(host.look())
    for at, text in enumerate(COMMANDS, 1):
        command = command_of(text)
        print(f"{at} of {len(COMMANDS)}: {shlex.join(command)}", file=sys.stderr)
        said, error = run(command)
        _, stolen = host.since()
        looks.append(host.look())
        if error:
            failed.append(f"{shlex.join(command)}: {error}")
        busy, stolen = max(busy for busy, _ in looks[-2:]), max(stolen, *(taken for _, taken in looks[-2:]))
        noisy = busy > MOST_BUSY or stolen > MOST_STOLEN
        noise = f"others used {busy:.0%}, the hypervisor took {stolen:.0%}" if noisy else None
        found += [(line, noise) for line in map(LINE.fullmatch, said.splitlines()) if line]

    rows = [("", "promise", "target", "measured", "verdict")]
    for number, (promise, target, command) in specified.items():
        lines = [(line, noise) for line, noise in found if line["promise"] == number]
        if not lines:
            rows.append((number, brief(promise), target, "–", f"not measured: {command}"))
        for line, noise in lines:
            said, text = line["said"], f"{brief(promise)}: {line['what']}" if line["what"] else brief(promise)
            if said.startswith("not measured"):
                rows.append((number, text, target, "–", said))
            else:
                verdict = judged(promise, target, re.findall(FIGURE, said), noise)
                rows.append((number, text, target, said, f"{verdict} ({line['further']})" if line["further"] else verdict))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[4]]))
    loads = [f"{load[0]:.1f}" for load in (began, os.getloadavg())]
    print(f"\n{describe()}; load {loads[0]} when it began, {loads[1]} at the end")
    print(f"{len(looks)} looks between: others used {max(look[0] for look in looks):.0%} of the processors at most,", end=" ")
    print(f"the hypervisor took {max(look[1] for look in looks):.0%}")
    for line in failed:
        print(f"failed: {line}")
    return 1 if failed or any(row[4].startswith("failed") for row in rows) else 0


if __name__ == "__main__":
    # Whoever reads no further, as `head` does, ends it as any other tool.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
