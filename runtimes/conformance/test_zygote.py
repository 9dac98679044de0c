"""What docs/link-protocol.md promises of zygotes and clones, checked on every shim that can be forked here."""

import os
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import outside  # noqa: E402
import shims  # noqa: E402
from peer import FAR_DEADLINE_MS, with_head  # noqa: E402
from zygote import Zygote  # noqa: E402

SHARES_WITH_ZYGOTE = {"/dev/null"}


class ZygoteContract:
    shim = None

    def setUp(self):
        self.zygote = Zygote(self.shim.zygote)
        self.addCleanup(self._clean)
        self.clones = []

    def _clean(self):
        for clone in self.clones:
            clone.end()
        self.zygote.socket.close()
        self.zygote.process.kill()
        self.zygote.wait()

    def ready(self, **init):
        hello = self.zygote.start(*self.shim.forked(), **init)
        self.assertIs(hello["snapshot"], True, hello)
        return self.zygote

    def frozen(self, **init):
        self.ready(**init).freeze()
        return self.zygote

    def clone(self, **kwargs):
        clone = self.zygote.clone(**kwargs)
        self.clones.append(clone)
        return clone

    def assert_refused(self, peer, status=None):
        """A protocol error on call 0, and the end."""
        error = peer.expect("ERROR")
        self.assertEqual((error.call, error.json()["kind"]), (0, "protocol"), error)
        self.assertIsNone(peer.receive())
        if status is not None:
            self.assertEqual(peer.wait(), status)

    # --- the freeze

    def test_a_zygote_serves_calls_before_the_freeze(self):
        zygote = self.ready()
        self.assertEqual(zygote.warm_up().json(), {"count": 1})
        self.assertEqual(zygote.invoke().json(), {"count": 2})

    def test_the_marks_of_a_zygote_are_hidden_from_the_function(self):
        environment = self.ready().invoke({"do": "environment"}).json()["environment"]
        self.assertNotIn("FLINT_ZYGOTE", environment)
        self.assertNotIn("FLINT_LINK_FD", environment)

    def test_freeze_replays_the_warm_up_calls_and_reports(self):
        zygote = self.ready()
        zygote.warm_up()
        report = zygote.freeze(calls=20)
        self.assertLessEqual(report["warmupCalls"], 20, report)
        for key in ("warmupMs", "functions", "optimised", "reached", "hugePageBytes", "rssBytes", "notes"):
            self.assertIn(key, report)
        self.assertGreater(report["rssBytes"], 1 << 20)
        self.assertEqual(self.clone().invoke().json(), {"count": 1 + report["warmupCalls"] + 1})

    def test_freeze_without_a_warm_up(self):
        self.assertEqual(self.ready().freeze(calls=20)["warmupCalls"], 0)
        self.assertEqual(self.clone().invoke().json(), {"count": 1})

    def test_freeze_keeps_to_its_budget(self):
        zygote = self.ready()
        zygote.warm_up()
        self.assertLess(zygote.freeze(calls=2 ** 31 - 1, budgetMs=50)["warmupCalls"], 2 ** 31 - 1)

    def test_huge_pages_can_be_asked_for(self):
        self.ready().freeze(hugePages=True)
        self.assertEqual(self.clone().invoke().json(), {"count": 1})

    def test_a_failing_hook_refuses_the_freeze(self):
        zygote = self.ready(env={"BEFORE": "fails"})
        self.assertIn("cannot be frozen", zygote.refusal())
        self.assertEqual(zygote.close(), 0)

    def test_freeze_before_the_code_is_loaded(self):
        self.zygote.expect("HELLO")
        self.zygote.send_freeze()
        self.assert_refused(self.zygote, 3)

    def test_a_frozen_zygote_ends_with_its_link(self):
        self.frozen()
        self.assertEqual(self.zygote.close(), 0)

    def test_clones_outlive_their_zygote(self):
        self.frozen()
        clone = self.clone()
        self.assertEqual(self.zygote.close(), 0)
        self.assertEqual(clone.invoke().json(), {"count": 1})

    def test_clone_without_descriptors(self):
        self.frozen().send("CLONE", 1, b"\0")
        self.assert_refused(self.zygote, 3)

    def test_a_frozen_zygote_takes_nothing_but_clone(self):
        self.frozen().send("INVOKE", 1, with_head({"activation": "0", "deadline": FAR_DEADLINE_MS}, b"{}"), fin=True)
        self.assert_refused(self.zygote, 3)

    # --- clones

    def test_no_clone_sees_what_another_did(self):
        self.ready().warm_up()
        self.zygote.freeze(calls=0)
        for _ in range(3):
            clone = self.clone()
            self.assertEqual([clone.invoke().json()["count"] for _ in range(3)], [2, 3, 4])

    def test_many_clones_at_once(self):
        self.frozen()
        clones = [self.clone(prime=number % 2 == 0) for number in range(30)]
        self.assertEqual(len({clone.pid for clone in clones}), 30)
        for clone in reversed(clones):
            self.assertEqual(clone.invoke({"do": "pid"}).json(), {"pid": clone.pid})

    def test_a_primed_clone_is_no_different(self):
        self.ready().warm_up({"text": "kept"})
        self.zygote.freeze()
        plain, primed = self.clone(), self.clone(prime=True)
        self.assertEqual(plain.invoke().json(), primed.invoke().json())
        hidden = ("__OW_ACTIVATION_ID", "__OW_DEADLINE")
        plain, primed = ({name: value for name, value in clone.invoke({"do": "environment"}).json()["environment"].items() if name not in hidden}
                         for clone in (plain, primed))
        self.assertEqual(plain, primed)

    def test_a_call_right_behind_restore_waits_for_the_hooks(self):
        self.frozen(env={"SLOW_MS": "50"})
        clone = self.clone(restore=False)
        clone.send_restore()
        call = clone.begin({})
        clone.send("INVOKE", call, with_head(clone.head, b'{"do":"events"}'), fin=True)
        self.assertEqual(clone.expect("ACK").call, 0)
        self.assertEqual(clone.answer(call).json()["events"], ["before 2", "before 1", "after 1", "after 2"])

    def test_a_call_whose_body_comes_in_pieces(self):
        self.frozen()
        text = "x" * 3_000_000
        self.assertEqual(self.clone().invoke({"do": "pid", "text": text}).json(), {"pid": self.clones[0].pid})

    def test_a_failing_hook_fails_the_restore(self):
        self.frozen(env={"AFTER": "fails"})
        clone = self.clone(restore=False)
        clone.send_restore()
        error = clone.expect("ERROR")
        self.assertEqual((error.call, error.json()["kind"]), (0, "developer"))
        self.assertIn("cannot be restored", error.json()["message"])
        self.assertIsNone(clone.receive())

    def test_a_clone_for_one_call_ends_when_it_has_answered(self):
        self.frozen()
        clone = self.clone(restore=False)
        clone.restore(once=True)
        clone.invoke({"do": "write", "text": "last words"})
        self.assertIsNone(clone.receive())
        clone.ended()
        self.assertEqual(clone.stdout, "last words\n")

    def test_a_call_before_restore(self):
        self.frozen()
        clone = self.clone(restore=False)
        clone.send("INVOKE", 1, with_head({"activation": "0", "deadline": FAR_DEADLINE_MS}, b"{}"), fin=True)
        self.assert_refused(clone)

    def test_restore_twice(self):
        self.frozen()
        clone = self.clone()
        clone.send_restore()
        self.assert_refused(clone)

    def test_restore_for_what_is_no_clone(self):
        self.ready().send("RESTORE", payload=b'{"entropy":"%s","time":0,"instance":"1"}' % (b"0" * 64))
        self.assert_refused(self.zygote, 3)

    def test_restore_without_entropy(self):
        self.frozen()
        clone = self.clone(restore=False)
        clone.send("RESTORE", payload=b'{"time":0,"instance":"1"}')
        self.assert_refused(clone)

    # --- the wall between clones

    def test_output_belongs_to_the_clone_that_wrote_it(self):
        self.frozen()
        clones = [self.clone() for _ in range(3)]
        for clone in clones:
            clone.invoke({"do": "write", "text": f"from {clone.number}"})
        self.assertEqual(self.zygote.close(), 0)
        for clone in clones:
            clone.end()
            self.assertEqual((clone.stdout, clone.stderr), (f"from {clone.number}\n", f"from {clone.number}\n"))
        self.assertEqual(self.zygote.stdout, "")

    def test_a_clone_has_the_tmp_it_was_given(self):
        self.frozen()
        for clone in [self.clone(), self.clone()]:
            self.assertEqual(clone.invoke({"do": "descriptors"}).json()["descriptors"]["200"], clone.tmp.name)

    def test_a_clone_cannot_signal_its_sibling_or_its_zygote(self):
        self.frozen()
        one, other = self.clone(), self.clone()
        self.assertEqual(one.invoke({"do": "signal", "pid": one.pid}).json(), {"error": None})
        self.assertEqual(one.invoke({"do": "signal", "pid": other.pid}).json(), {"error": "EPERM"})
        self.assertEqual(one.invoke({"do": "signal", "pid": self.zygote.process.pid}).json(), {"error": "EPERM"})

    def test_seen_from_outside_a_clone_is_a_process_of_its_own(self):
        self.frozen()
        clone = self.clone()
        clone.invoke()
        seen = outside.status(clone.pid)
        self.assertEqual((seen["Threads"], int(seen["PPid"]), seen["NoNewPrivs"]), ("1", self.zygote.process.pid, "1"))
        self.assertEqual(os.getsid(clone.pid), clone.pid, "its session is that of others")
        self.assertEqual(int(seen["SigBlk"], 16), 0)
        self.assertEqual(int(seen["SigIgn"], 16) >> 16 & 1, 0, "SIGCHLD is ignored")
        self.assertEqual(os.stat(f"/proc/{clone.pid}/environ").st_uid, 0, "the clone is dumpable")
        if outside.sees_everything():
            self.assertEqual(set(outside.shared_files(clone.pid, self.zygote.process.pid)) - SHARES_WITH_ZYGOTE, set())
            self.assertEqual(outside.shared_writable_mappings(clone.pid, self.zygote.process.pid), set())
            other = self.clone()
            self.assertEqual(set(outside.shared_files(clone.pid, other.pid)) - SHARES_WITH_ZYGOTE, set())
        else:
            self.assertRaises(PermissionError, os.listdir, f"/proc/{clone.pid}/fd")

    def test_clones_leave_no_zombies(self):
        self.frozen()
        clones = [self.clone() for _ in range(5)]
        for clone in clones:
            clone.end()
        for _ in range(6000):
            left = [clone.pid for clone in clones if os.path.exists(f"/proc/{clone.pid}")]
            if not left:
                break
            time.sleep(0.01)
        self.assertEqual(left, [])


def load_tests(loader, _, __):
    scratch = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(scratch.cleanup)
    suite = unittest.TestSuite()
    languages = sys.argv[1:] or ["nodejs", "python"]
    for shim in shims.found(Path(scratch.name), languages, report=lambda text: print(text, file=sys.stderr)):
        if shim.zygote is None:
            continue
        name = "Zygote_" + shim.name.replace(" ", "_").replace(".", "_")
        suite.addTests(loader.loadTestsFromTestCase(type(name, (ZygoteContract, unittest.TestCase), {"shim": shim, "__module__": __name__})))
    suite._scratch = scratch  # lives as long as the suite
    return suite


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
