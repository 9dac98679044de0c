import json
import tempfile
import unittest
from pathlib import Path

import manifest
import oracle


def workload(folder, **changes):
    """A small workload in `folder`."""
    place = Path(folder, "suite", "name")
    place.mkdir(parents=True, exist_ok=True)
    said = {
        "name": "name", "suite": "suite", "about": "a", "source": "s",
        "variants": [{"name": "node", "entry": "f", "functions": [{"name": "f", "code": "index.js", "kind": "nodejs"}]}],
        "sizes": {size: {"params": {}, "expect": {"/a": {"equals": 1}}} for size in manifest.SIZES},
        **changes,
    }
    (place / "bench.json").write_text(json.dumps(said))
    return manifest.Workload(place)


class Rules(unittest.TestCase):
    def holds(self, rule, value):
        return not oracle.broken(rule, value)

    def test_each_rule_takes_what_is_right_and_refuses_what_is_not(self):
        digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"  # of "hello"
        for rule, right, wrong in (
            ({"equals": [1, 2.0]}, [1.0, 2], [2, 1]),
            ({"equals": {"a": True}}, {"a": True}, {"a": 1}),
            ({"one_of": ["x", "y"]}, "y", "z"),
            ({"min": 1, "max": 2}, 1.5, 2.5),
            ({"min": 0}, 0, "0"),
            ({"max": 1}, 1, True),
            ({"length": 2}, "ab", "abc"),
            ({"matches": "[a-z]+"}, "abc", "abc1"),
            ({"sha256": digest}, "hello", "Hello"),
            ({"sha256": digest, "encoding": "base64"}, "aGVsbG8=", "aGVsbG8*"),
        ):
            self.assertTrue(self.holds(rule, right), rule)
            self.assertFalse(self.holds(rule, wrong), rule)

    def test_an_unknown_or_empty_rule_never_holds(self):
        self.assertFalse(self.holds({}, 1))
        self.assertFalse(self.holds({"equal": 1}, 1))

    def test_what_is_not_there_is_noticed(self):
        self.assertFalse(self.holds({"min": 0}, oracle.at({"a": [1]}, "/a/1")))
        self.assertTrue(self.holds({"absent": True}, oracle.at({}, "/error")))
        self.assertFalse(self.holds({"absent": True}, oracle.at({"error": 1}, "/error")))

    def test_pointers_are_those_of_rfc_6901(self):
        self.assertEqual(oracle.at({"a/b": {"~": [7]}}, "/a~1b/~0/0"), 7)
        self.assertEqual(oracle.at([1], ""), [1])


class Programs(unittest.TestCase):
    def test_the_exit_status_of_a_program_decides_and_its_words_are_told(self):
        with tempfile.TemporaryDirectory() as folder:
            judge = "import json, sys; said = json.load(sys.stdin); sys.exit(0 if said['answer']['a'] == said['params']['a'] else 'not that')"
            judged = workload(folder, oracle={"program": ["python3", "-c", judge]})
            self.assertEqual(oracle.complaints(judged, "test", {"a": 1}, {"a": 1}), [])
            self.assertEqual(oracle.complaints(judged, "test", {"a": 2}, {"a": 1}), ["not that"])


class Manifests(unittest.TestCase):
    def refused(self, **changes):
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(manifest.BadManifest) as raised:
            workload(folder, **changes)
        return str(raised.exception)

    def test_mistakes_are_named(self):
        self.assertIn("unknown keys ['colour']", self.refused(colour="red"))
        self.assertIn("sizes lack", self.refused(sizes={"test": {"params": {}, "expect": {"": {"equals": 1}}}}))
        misspelt = {size: {"params": {}, "expects": {"/a": {"equals": 1}}} for size in manifest.SIZES}
        self.assertIn("unknown keys ['expects']", self.refused(sizes=misspelt, oracle={"program": ["true"]}))
        for warmup in ({"size": "test", "calls": 3}, {"size": "none"}, {}):
            self.assertIn("more or less than one of the sizes", self.refused(warmup=warmup))
        self.assertIn("nothing expected", self.refused(sizes={size: {"params": {}} for size in manifest.SIZES}))
        self.assertIn("the entry g", self.refused(variants=[{"name": "n", "entry": "g", "functions": [{"name": "f", "code": "x", "kind": "nodejs"}]}]))
        function = {"name": "f", "code": "x", "kind": "nodejs", "env": {"URL": "${s3.url}"}}
        self.assertIn("without naming it in back_ends", self.refused(variants=[{"name": "n", "entry": "f", "functions": [function]}]))
        chain = {"name": "n", "entry": "s", "sequences": {"s": ["f", "f"]}, "functions": [{"name": "f", "code": "x", "kind": "nodejs"}]}
        self.assertIn("it has none of its own", self.refused(variants=[chain]))

    def test_files_and_values_are_put_in(self):
        with tempfile.TemporaryDirectory() as folder:
            made = workload(folder)
            (made.folder / "input").write_bytes(b"hello")
            filled = made.filled({"img": {"$file": "input"}, "urls": ["${s3.url}/x"], "n": 1}, {"s3": {"url": "http://a"}})
            self.assertEqual(filled, {"img": "aGVsbG8=", "urls": ["http://a/x"], "n": 1})

    def test_every_workload_here_is_in_order(self):
        workloads = manifest.found()
        self.assertGreater(len(workloads), 20)
        for one in workloads:
            readme = (one.folder.parent / "README.md").read_text()
            self.assertIn(f"[{one.name}]({one.name})", readme, f"{one}: its suite's README says nothing of it")
            for param in one.said["sizes"]["small"]["params"]:
                self.assertIn(f"`{param}`", readme, f"{one}: its suite's README does not have the parameter {param}")
        names = [function["name"] for w in workloads for v in w.said["variants"] for function in v["functions"]]
        self.assertEqual(len(names), len(set(names)), "two functions of one name could not be deployed together")


if __name__ == "__main__":
    unittest.main()
