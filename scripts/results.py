#!/usr/bin/env python3
"""Fills docs/results.md with the figures of runs that have ended.

    scripts/results.py DIR      DIR has their folders, as `flint bench EXPERIMENT --out DIR/EXPERIMENT` makes them
    scripts/results.py --empty  takes all figures out again

Between `<!-- figures: EXPERIMENT -->` and `<!-- /figures -->` everything is written anew: what was run and on what, a table of the arms,
what is promised of them, how they compare (Mann–Whitney U), their notes, what was left out and why. Nothing else of the page is touched. A run with --quick is refused: its figures are not
to be quoted. An experiment that DIR does not have keeps what it had.
"""

import datetime
import json
import re
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "results.md"
BLOCK = re.compile(r"(<!-- figures: ([a-z0-9-]+) -->\n).*?(<!-- /figures -->)", re.DOTALL)
NOT_YET = "Not measured yet.\n"


def ms(us):
    if us is None:
        return ""
    value = us / 1000
    if 0 < value < 0.1:  # instances of WebAssembly take some thousandths
        return f"{value:.2g}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def mib(size):
    return "" if size is None else f"{size / (1 << 20):.1f}"


def interval(arm):
    said = arm.get("interval_us")
    if said and said["n"] < 5:  # reports from before they were left out
        return ""
    return f"{ms(said['low'])}–{ms(said['high'])}" if said else ""


def failed(arm):
    calls = sum(kind["calls"] for kind in arm.get("failures", {}).values())
    return str(calls) if calls else ""


def latency(quantile):
    return lambda arm: ms(arm.get("latency_us", {}).get(quantile))


COLUMNS = (
    ("function", lambda arm: arm.get("function", "")),
    ("arm", lambda arm: arm["arm"]),
    ("at once", lambda arm: str(arm.get("concurrency", ""))),
    ("n", lambda arm: str(arm.get("n", ""))),
    ("p50 ms", latency("p50")),
    ("95 % of p50", interval),
    ("p90", latency("p90")),
    ("p99", latency("p99")),
    ("start", lambda arm: ms(arm.get("start_us"))),
    ("waits", lambda arm: ms(arm.get("waits_us"))),
    ("said", lambda arm: ms(arm.get("said_us"))),
    ("first", lambda arm: ms(arm.get("first_us"))),
    ("steady", lambda arm: ms(arm.get("steady_us"))),
    ("calls/s", lambda arm: f"{arm['calls_per_s']:.1f}" if "calls_per_s" in arm else ""),
    ("cold", lambda arm: str(arm.get("cold_starts", ""))),
    ("instances", lambda arm: str(arm.get("instances", ""))),
    ("RSS MiB", lambda arm: mib(arm.get("rss_bytes"))),
    ("PSS MiB", lambda arm: mib(arm.get("pss_bytes"))),
    ("USS MiB", lambda arm: mib(arm.get("private_bytes"))),
    ("failed", failed),
)


def command(report):
    said = report["settings"]
    words = ["flint bench", report["experiment"]]
    words += [f"--size {said['size']}"] if said.get("size", "small") != "small" else []
    words += [f"--arms {','.join(said['arms'])}"] if said.get("arms") else []
    words += [f"--repeat {said['repeat']}"] if said.get("repeat") else []
    words += [f"--seed {said['seed']}"] if said.get("seed", 1) != 1 else []
    words += [f"--set {key}={value}" for key, value in said.get("set", {}).items()]
    return " ".join(words)


def table(rows):
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n" for row in rows)


def notes(arms):
    """A line for each arm and note, with the functions that it is of."""
    found = {}
    for arm in arms:
        if arm.get("note"):
            note = " ".join(arm["note"].removeprefix("unavailable: ").split())
            found.setdefault((arm["arm"], note), set()).add(arm.get("function", ""))
    lines = ((arm, ", ".join(sorted(of)), note) for (arm, note), of in sorted(found.items()))
    return [f"{arm} ({of}): {note}" if of else f"{arm}: {note}" for arm, of, note in lines]


def arms(report):
    """The table, and lines for the arms' notes and for what has no figures."""
    measured = [arm for arm in report["arms"] if not arm.get("note", "").startswith("unavailable: ")]
    left_out = [arm for arm in report["arms"] if arm not in measured]
    measured.sort(key=lambda arm: (arm.get("function", ""), arm.get("concurrency", 0)))
    used = [(title, pick) for title, pick in COLUMNS if any(pick(arm) for arm in measured)]
    rows = [[title for title, _ in used], ["---"] * len(used), *([pick(arm) for _, pick in used] for arm in measured)]
    return table(rows), [*notes(measured), *(f"Left out: {short(line)}" for line in notes(left_out))]


def verdict(target, withheld):
    if target.get("met") is None and target.get("why"):
        why = target["why"]
        # Reports from before the kind was written tell noise by how the reason begins.
        kind = target.get("unjudged") or ("noise" if why.startswith("host too noisy: ") else "not_measured")
        return why if kind == "noise" else f"not measured: {why}"
    if target.get("met") is None:
        return "not judged" if withheld else "not measured"
    return "met" if target["met"] else "**missed**"


def comparisons(report):
    """Compared arms, a row each; rank-biserial is 1 where the first always takes longer, −1 where it never does."""
    rows = [["function", "arm", "times", "of", "U", "n", "p", "rank-biserial"], ["---"] * 8]
    for one in report.get("comparisons", []):
        test = one["test"]
        p = "< 0.001" if test["p"] < 0.001 else f"{test['p']:.3f}"
        times, n, effect = f"{one['times']:.2f}", f"{test['n1']}, {test['n2']}", f"{test['rank_biserial']:.2f}"
        rows.append([one["function"], one["a"], times, one["b"], f"{test['u']:.0f}", n, p, effect])
    return f"\n{table(rows)}" if len(rows) > 2 else ""


def figures(report):
    host, noise = report["host"], report["noise"]
    ended = datetime.datetime.fromtimestamp(report["ended"], datetime.timezone.utc)
    workloads = f", workloads {report['workloads']}" if report.get("workloads") else ""
    text = f"`{command(report)}`, {ended:%Y-%m-%d}, commit {report['commit'][:12]}{workloads}, on {host['cores']} × {host['cpu']}, "
    text += f"Linux {host['kernel']}; {100 * noise['stolen']:.1f} % of the time stolen, {100 * noise['others']:.1f} % used by others, "
    text += f"a fixed computation varied by {noise['spread']:.2f} ×"
    if noise.get("memory_spread"):
        text += f", the memory's time to answer by {noise['memory_spread']:.2f} ×"
    if noise.get("start_after_rest"):
        text += f", a process started after a rest takes {noise['start_after_rest']:.1f} × as long"
    text += ".\n\n"
    shown, said = arms(report)
    text += shown
    if report.get("withheld"):
        text += f"\nNothing is compared: {report['withheld']}.\n"
    if report["targets"]:
        rows = [["promise", "target", "measured", ""], ["---"] * 4]
        for target in report["targets"]:
            number = f"{target['promise']}: " if target.get("promise") else ""
            value = "–" if target.get("value") is None else f"{target['value']:.2f}"
            rows.append([number + target["name"], target["target"], value, verdict(target, report.get("withheld"))])
        text += "\n" + table(rows)
    text += comparisons(report)
    lines = [*report.get("notes", []), *said]
    return text + ("\n" + "".join(f"- {line}\n" for line in lines) if lines else "")


def short(reason):
    """A reason without places of the machine that it was found on."""
    reason = re.sub(r"`[^`]*`?", "…", reason.replace(f"{PAGE.parent.parent}/", ""))
    return reason if len(reason) <= 200 else f"{reason[:200]}…"


def kept(folder):
    """By experiment, the latest report of each variant that was asked for, as far as they are of one build."""
    found = {}
    for path in sorted(Path(folder).glob("**/report.json")):
        try:
            report = json.loads(path.read_text())
            name = report["experiment"]
        except (ValueError, KeyError, TypeError) as error:
            sys.exit(f"{path} is not a report: {error!r}")
        if report["settings"].get("quick"):
            sys.exit(f"{path}: a run with --quick, whose figures are not to be quoted")
        of = found.setdefault(name, {})
        variant = report["settings"].get("set", {}).get("variant", "")
        if variant not in of or of[variant]["ended"] < report["ended"]:
            of[variant] = report
    return {name: of_one_build(reports.values()) for name, reports in found.items()}


def of_one_build(reports):
    latest = max(reports, key=lambda report: report["ended"])
    return [report for report in reports if report["commit"] == latest["commit"]]


def filled(page, reports, empty):
    names = [name for _, name, _ in BLOCK.findall(page)]
    unknown = sorted(set(reports) - set(names))
    if unknown:
        sys.exit(f"{PAGE.name} has no place for {', '.join(unknown)}")

    def block(match):
        head, name, end = match.groups()
        if name in reports:
            return head + "\n".join(figures(report) for report in reports[name]) + end
        return head + NOT_YET + end if empty else match.group(0)

    return BLOCK.sub(block, page), names


def main(arguments):
    if len(arguments) != 1:
        sys.exit(__doc__)
    empty = arguments[0] == "--empty"
    reports = {} if empty else kept(arguments[0])
    if not empty and not reports:
        sys.exit(f"there is no report.json below {arguments[0]}")
    page, names = filled(PAGE.read_text(), reports, empty)
    PAGE.write_text(page)
    for name in names:
        print(f"{name}: {'filled' if name in reports else 'left as it was'}" if not empty else f"{name}: emptied")


if __name__ == "__main__":
    main(sys.argv[1:])
