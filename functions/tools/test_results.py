import importlib.util
import json
import tempfile
import unittest
from pathlib import Path

import manifest

spec = importlib.util.spec_from_file_location("results", manifest.FUNCTIONS.parent / "scripts" / "results.py")
results = importlib.util.module_from_spec(spec)
spec.loader.exec_module(results)


class Figures(unittest.TestCase):
    def test_a_time_of_thousandths_of_a_millisecond_is_not_shown_as_none(self):
        shown = [results.ms(us) for us in (None, 0, 3.34, 13.27, 84, 120, 9_876, 12_345, 250_000)]
        self.assertEqual(shown, ["", "0.00", "0.0033", "0.013", "0.084", "0.12", "9.88", "12.3", "250"])

    def test_resident_memory_is_shown_where_that_is_all_there_is(self):
        shown, _ = results.arms({"arms": [{"arm": "flint-idle", "rss_bytes": 30 << 20}]})
        self.assertEqual(shown.splitlines(), ["| arm | RSS MiB |", "| --- | --- |", "| flint-idle | 30.0 |"])

    def test_failed_calls_and_notes_are_published(self):
        failures = {"timeout": {"calls": 2, "example": "no"}, "status 500": {"calls": 1, "example": "no"}}
        flint = {"arm": "flint", "function": "f node", "failures": failures, "note": "9 of 12 waited"}
        absent = {"arm": "runc", "function": "f node", "note": "unavailable: it is not installed\nsee `x`"}
        shown, lines = results.arms({"arms": [flint, {"arm": "wasm", "function": "f node"}, absent]})
        self.assertEqual(
            shown.splitlines(),
            ["| function | arm | failed |", "| --- | --- | --- |", "| f node | flint | 3 |", "| f node | wasm |  |"],
        )
        self.assertEqual(
            lines, ["flint (f node): 9 of 12 waited", "Left out: runc (f node): it is not installed see …"]
        )

    def test_what_is_no_report_is_named(self):
        for text in ("{", "[]", "{}"):
            with tempfile.TemporaryDirectory() as folder, self.assertRaises(SystemExit) as ended:
                Path(folder, "report.json").write_text(text)
                results.kept(folder)
            self.assertIn("report.json is not a report", str(ended.exception))

    def test_the_latest_report_of_a_variant_is_taken(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, ended in (("a", 2), ("b", 1)):
                Path(folder, name).mkdir()
                report = {"experiment": "wasm", "commit": "c", "ended": ended, "settings": {"quick": False}}
                Path(folder, name, "report.json").write_text(json.dumps(report))
            self.assertEqual([report["ended"] for report in results.kept(folder)["wasm"]], [2])


if __name__ == "__main__":
    unittest.main()
