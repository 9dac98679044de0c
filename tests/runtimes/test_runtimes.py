"""Every release of Node.js and Python that can be had here, through a real server and inside the sandbox.

A release that is here and does not work fails. One that is not here, and cannot be fetched, is reported with the reason. Times are reported and
never asserted.
"""

import base64
import io
import json
import os
import re
import sys
import tempfile
import unittest
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import interpreters
from flint_server import Server, assert_nothing_left

FUNCTIONS = Path(__file__).resolve().parent / "functions"
NODE_FUNCTIONS = interpreters.ROOT / "runtimes/nodejs/test/functions"
CLONES = 50
AT_ONCE = 3
LIMITS = {"timeout_ms": 60000, "memory_mb": 256}
# The runtime has to be up within it as well: where the machine was too busy for that, LONGER is tried.
SHORT = {"timeout_ms": 5000, "memory_mb": 256}
LONGER = {"timeout_ms": 40000, "memory_mb": 256}

server = None
report = {}


def setUpModule():
    global server
    folders = ", ".join(f'"{folder}"' for folder in interpreters.folders())
    # A runtime of each kind kept started for nothing would take the processor.
    server = Server(settings={"FLINT_RUNTIMES__SEARCH": f"[{folders}]", "FLINT_POOL__PREWARM": "0"}).start()


def tearDownModule():
    server.stop()
    assert_nothing_left(server)
    server.remove()


class Release:
    """What has to work with each. `language`: its name in kinds; `suffix`: of its functions."""

    interpreter = None

    # --- what is used

    def deploy(self, source, start="fork", label=None, warmup=(), limits=LIMITS, code=None, reuse="never"):
        """Deploys one of the functions, or `code` of that name; gives what was prepared."""
        source = source if isinstance(source, Path) else FUNCTIONS / f"{source}{self.suffix}"
        name = f"{self.language}-{self.interpreter.line}-{label or source.stem}-{start or 'chosen'}"
        request = {"kind": self.interpreter.kind, "code": code or {"format": "source", "text": source.read_text()}, "limits": limits,
                   "start": start, "reuse": reuse, "snapshot": {"warmup": [{"params": event} for event in warmup]}}
        if start is None:  # the platform's own choice, which may fall back
            del request["start"], request["reuse"]
        answer = server.request("PUT", f"/v1/functions/{name}", request)
        self.assertIn(answer.status, (200, 201), answer)
        self.name = name
        return answer.json()["function"]["prepared"]

    def forked(self, source, **fields):
        """Deploys, and makes sure of the snapshot: a fall-back would pass for it otherwise."""
        prepared = self.deploy(source, **fields)
        self.assertEqual((prepared["strategy"]["start"], prepared.get("fallback")), ("fork", None), prepared)
        self.assertTrue(prepared["snapshot"]["kept"], prepared)
        return prepared["snapshot"]

    def record(self, name=None, **params):
        record = server.invoke(name or self.name, params)[1]
        self.assertIn("response", record, f"no answer of {name or self.name} to {params} within the time that a caller may wait")
        return record

    def call(self, name=None, **params):
        """The result of a call that has to succeed."""
        record = self.record(name, **params)
        self.assertTrue(record["response"]["success"], record["response"])
        return record["response"]["result"]

    def error(self, name=None, **params):
        record = self.record(name, **params)
        self.assertFalse(record["response"]["success"], record["response"])
        return str(record["response"]["result"])

    def tell(self, **facts):
        report.setdefault(repr(self.interpreter), {}).update(facts)

    # --- the release itself

    def test_it_is_found_by_its_whole_version(self):
        runtimes = {runtime["kind"]: runtime for runtime in server.request("GET", "/v1/doctor").json()["runtimes"]}
        self.assertIn(self.interpreter.kind, runtimes)
        found = runtimes[self.interpreter.kind]
        self.assertTrue(found["available"], found)
        self.assertEqual(found["detail"].split(" at ")[0], self.interpreter.version, found)

    def test_spawned_and_forked(self):
        names, endless = {}, {}
        for start in ("spawn", "fork"):
            try:
                self.deploy("plain", start, label="endless", limits=SHORT)
            except AssertionError:
                self.deploy("plain", start, label="endless", limits=LONGER)
            endless[start] = self.name
            prepared = self.deploy("plain", start)
            names[start] = self.name
            self.assertEqual((prepared["strategy"]["start"], prepared.get("fallback")), (start, None), prepared)
            if start == "fork":
                self.assertTrue(prepared["snapshot"]["kept"], prepared)
        with ThreadPoolExecutor(6) as pool:
            # Calls that never end, and others beside them.
            endless = {start: pool.submit(self.error, name, do="loop") for start, name in endless.items()}
            for start, name in names.items():
                with self.subTest(start=start):
                    self.behaves(start, name, pool)
            for start, call in endless.items():
                self.assertRegex(call.result(), "time limit", start)
        self.shares_its_memory(names["fork"])

    def behaves(self, start, name, pool):
        explanation = server.request("GET", f"/v1/explain/{name}").json()
        self.assertEqual(explanation["strategy"]["start"], start)
        self.assertIn(f"is {self.interpreter.version} at", " ".join(explanation["reasons"]))
        for _ in range(3):  # no call sees what another did
            self.assertEqual(self.call(name, do="hello", who="you"), {"greeting": "Hello you", "version": self.interpreter.version, "calls": 1})
        self.assertIn("thrown on purpose", self.error(name, do="fail"))
        self.assertRegex(self.error(name, do="exit"), "exit|ended")
        records = list(pool.map(lambda number: self.record(name, do="log", text=f"call {number}"), range(4)))
        for number, record in enumerate(records):  # each has its own lines, and no others
            lines = server.activation(record["activationId"])["logs"]
            said = sorted(re.sub(r"^\S+ +(stdout|stderr): ", r"\1: ", line) for line in lines)
            self.assertEqual(said, [f"stderr: call {number} to stderr", f"stdout: call {number} to stdout"])

    def shares_its_memory(self, name):
        memory = self.call(name, do="memory")
        self.assertLess(memory["private"], memory["rss"] / 3, "a clone has most of its memory in common with its snapshot")
        self.tell(private_mib=memory["private"] / 1024, rss_mib=memory["rss"] / 1024)

    def test_a_clone_is_warm(self):
        for warmed in (False, True):
            snapshot = self.forked("compute", label=f"compute-{warmed}", warmup=[self.heavy, self.light] if warmed else [])
            if warmed:
                self.assertGreater(snapshot["warmup_calls"], 2)
                self.is_optimised(snapshot, self.call(**self.heavy, look=True)["optimised"])
            ms = [self.call(**self.heavy, rounds=4)["ms"] for _ in range(5)]
            # The best of each: what else this machine does is not to be seen.
            self.tell(**{"warm" if warmed else "cold": min(times[0] for times in ms) / min(min(times[1:]) for times in ms)})

    def test_clones_differ(self):
        self.forked(self.values, warmup=[{}])
        seen = {}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for answer in pool.map(lambda _: self.call(), range(CLONES)):
                for name, value in answer.items():
                    seen.setdefault(name, []).append(value)
        for name, values in seen.items():
            if name not in self.not_unique:
                self.assertEqual(len(set(values)), 1 if name.startswith("same") else CLONES, f"{name}: {values[:3]}")

    def test_whatever_a_process_does_it_does_in_a_clone(self):
        self.forked(self.battery)
        name, cases = self.name, self.call(cases=True)["cases"]
        self.assertGreaterEqual(len(cases), 24)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = pool.map(lambda case: (case, self.record(name, case=case)["response"]["result"]), cases)
            self.assertEqual([answer for answer in answers if answer[1] != {"ok": True}], [])

    def test_hooks(self):
        snapshot = self.forked("hooks")
        self.assertEqual(snapshot["notes"], [])
        for _ in range(2):
            self.assertEqual(self.call(), {"events": ["before", "after"], "listening": True})

    def test_what_cannot_be_copied_falls_back_and_says_why(self):
        prepared = self.deploy("obstacle", start=None)
        self.assertEqual(prepared["strategy"]["start"], "spawn", prepared)
        self.assertIn(self.obstacle, prepared["fallback"])
        explanation = server.request("GET", f"/v1/explain/{self.name}").json()
        self.assertIn(prepared["fallback"], " ".join(explanation["reasons"]))
        self.assertEqual(self.call(), {"fine": True})


class Node(Release):
    language, suffix = "nodejs", ".js"
    battery, values = NODE_FUNCTIONS / "battery.js", NODE_FUNCTIONS / "values.js"
    # Clocks, of which two readings may be alike.
    not_unique = {"alsoNow", "uptime", "now"}
    obstacle = "running timer"
    heavy, light = {"n": 40_000_007, "size": 60}, {"n": 90_001, "size": 12}

    def is_optimised(self, snapshot, in_a_clone):
        self.assertEqual((snapshot["optimised"], snapshot["left_behind"]), (snapshot["reached"], []), snapshot)
        self.assertGreaterEqual(snapshot["reached"], 4)
        self.assertEqual(in_a_clone, {"factors": True, "product": True, "round": True})
        self.tell(compiled=f"{snapshot['optimised']} of {snapshot['reached']}")

    def test_modules(self):
        snapshot = self.forked(FUNCTIONS / "modern.mjs", warmup=[{"text": "warm"}])
        self.assertEqual(snapshot["left_behind"], [], snapshot)
        for _ in range(2):
            answer = self.call(text="a")
            self.assertEqual((len(answer["digest"]), answer["restored"], answer["url"]), (64, 1, True))

    def test_a_module_in_an_archive_that_nothing_marks_as_one(self):
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as files:
            files.writestr("index.js", "import { twice } from './other.mjs';\nexport const main = ({ n }) => ({ n: twice(n) });\n")
            files.writestr("other.mjs", "export const twice = (n) => 2 * n;\n")
        code = {"format": "zip", "base64": base64.b64encode(archive.getvalue()).decode()}
        prepared = self.deploy("archive", start=None, code=code)
        if self.interpreter.numbers >= (20, 19):
            self.assertEqual((prepared["strategy"]["start"], prepared.get("fallback")), ("fork", None), prepared)
        else:
            self.assertEqual(prepared["strategy"]["start"], "spawn", prepared)
            self.assertRegex(prepared["fallback"], r'index\.js, an ES module .* by a thread.*name the file \.mjs.*"type": "module"')
        self.assertEqual(self.call(n=21), {"n": 42})


class Python(Release):
    language, suffix = "python", ".py"
    battery, values = FUNCTIONS / "battery.py", FUNCTIONS / "values.py"
    not_unique = set()
    obstacle = "lurker"
    heavy, light = {"n": 1_000_003, "size": 16}, {"n": 10_007, "size": 6}

    def is_optimised(self, snapshot, in_a_clone):
        specialises = self.interpreter.numbers >= (3, 11)
        self.assertEqual(in_a_clone, dict.fromkeys(("factors", "product"), True if specialises else None))
        self.tell(compiled="specialised" if specialises else "–")

    def test_modules(self):
        self.forked("modern", warmup=[{"text": "warm"}])
        for _ in range(2):
            answer = self.call(text="a")
            self.assertEqual((len(answer["digest"]), answer["differs"], answer["left"]), (64, True, True))

    def test_an_answer_that_cannot_be_passed_on_spoils_no_call_after_it(self):
        text = ("import itertools\nfrom flint import Response\ndef main(params):\n"
                "    return Response(itertools.repeat(b'x' * 100_000), headers={'x-a': 'a\\nb'}) if params.get('bad') else {'fine': True}\n")
        self.deploy("spoilt", start="spawn", reuse="warm", code={"format": "source", "text": text})
        for _ in range(3):
            self.assertIn("is not an HTTP header", self.error(bad=True))
            self.assertEqual(self.call(), {"fine": True})


class Discovery(unittest.TestCase):
    def test_there_is_something_to_test(self):
        here, _ = interpreters.all_of_them()
        self.assertEqual({interpreter.language for interpreter in here}, {"nodejs", "python"})

    def test_root_runs_nothing_that_another_user_could_replace(self):
        is_root = os.geteuid() == 0
        with tempfile.TemporaryDirectory() as folder:
            ran, node = Path(folder, "ran"), Path(folder, "versions/v99/bin/node")
            node.parent.mkdir(parents=True)
            node.write_text(f"#!/bin/sh\n: > '{ran}'\n")
            node.chmod(0o755)
            node.parents[1].chmod(0o777)
            done = server.cli("doctor", "--json", "--set", f'runtimes.search=["{node.parents[2]}"]')
            not_used = [ability["detail"] for ability in json.loads(done.stdout)["abilities"] if ability["name"] == "runtime not used"]
            self.assertEqual(ran.exists(), not is_root, done)
            self.assertEqual([f"{node}: {node.parents[1]} can be written to by everybody"] if is_root else [], not_used)


def load_tests(loader, _, __):
    here, _ = interpreters.all_of_them()
    suite = unittest.TestSuite([loader.loadTestsFromTestCase(Discovery)])
    for interpreter in here:
        base = {"nodejs": Node, "python": Python}[interpreter.language]
        name = f"{interpreter.language}_{interpreter.version.replace('.', '_')}"
        case = type(name, (base, unittest.TestCase), {"interpreter": interpreter, "__module__": __name__})
        suite.addTests(loader.loadTestsFromTestCase(case))
    return suite


def print_report():
    here, missing = interpreters.all_of_them()
    print("\nrelease          compiled      first/steady call, warmed up (not)   clone: private of all, MiB")
    for interpreter in here:
        facts = report.get(repr(interpreter), {})

        def fact(name, form):
            return form.format(facts[name]) if name in facts else "?"

        print(f"{interpreter!r:16} {facts.get('compiled', '?'):13} {fact('warm', '{:.2f}')} ({fact('cold', '{:.2f}')})"
              f"{'':27} {fact('private_mib', '{:.1f}')} of {fact('rss_mib', '{:.0f}')}")
    for name, why in missing.items():
        print(f"{name:16} unavailable: {why}")


if __name__ == "__main__":
    program = unittest.main(exit=False)
    print_report()
    sys.exit(not program.result.wasSuccessful())
