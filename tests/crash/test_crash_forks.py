"""kill -9 of everything that serves functions which are forked from a snapshot, under load: the server, the launcher, zygotes, clones."""

import os
import random
import shutil
import tempfile
import threading
import time
import unittest
from pathlib import Path

from flint_server import Server, assert_nothing_left, unfinished_in

SEED = int(os.environ.get("CRASH_SEED", str(random.randrange(1 << 32))))
ROUNDS = int(os.environ.get("CRASH_ROUNDS", "8"))
CALLERS = 6
MAX_ATTEMPTS = 5

CODE = {
    "py": ("python:default", "import time\ndef main(params):\n    time.sleep(params.get('sleep', 0))\n    return {'n': params['n']}\n"),
    "js": (
        "nodejs:default",
        "exports.main = async ({ n, sleep = 0 }) => { await new Promise((done) => setTimeout(done, sleep * 1000)); return { n }; };",
    ),
}


class Load(threading.Thread):
    """Sends asynchronous calls to both functions until it is told to end; keeps what was accepted."""

    def __init__(self, server, first):
        super().__init__(daemon=True)
        self.server, self.n, self.accepted, self.unexpected, self.enough = server, first, {}, [], threading.Event()

    def run(self):
        while not self.enough.is_set():
            self.n += 1
            try:
                answer = self.server.invoke_later(f"forked-{'py' if self.n % 2 else 'js'}", {"n": self.n, "sleep": 0.2 if self.n % 7 == 0 else 0})
            except (OSError, ValueError):
                self.enough.wait(0.01)
                continue
            if answer.status == 202:
                self.accepted[answer.json()["activationId"]] = self.n
            elif answer.status not in (429, 503):
                self.unexpected.append(answer)
            self.enough.wait(0.01)


class Forks(unittest.TestCase):
    def setUp(self):
        print(f"CRASH_SEED={SEED}", flush=True)
        self.random = random.Random(SEED)
        self.data = tempfile.mkdtemp(prefix="flint-crash-")
        self.addCleanup(shutil.rmtree, self.data, ignore_errors=True)
        self.server = Server(self.data, {"FLINT_ASYNC__MAX_ATTEMPTS": str(MAX_ATTEMPTS)}).start()
        self.addCleanup(self.server.remove)
        self.addCleanup(self.server.stop)
        for language, (kind, code) in CODE.items():
            answer = self.server.request("PUT", f"/v1/functions/forked-{language}", {
                "kind": kind, "code": {"format": "source", "text": code}, "start": "fork", "reuse": "never",
                "snapshot": {"warmup": [{"params": {"n": 0}}]},
            })
            self.assertEqual(answer.status, 201, answer)
            self.assertTrue(answer.json()["function"]["prepared"]["snapshot"]["kept"], answer)

    def under_load(self, harm, rounds):
        """Calls harm() again and again while calls come in. Gives what was accepted."""
        callers = [Load(self.server, (1 + index) * 1_000_000) for index in range(CALLERS)]
        for caller in callers:
            caller.start()
        try:
            for _ in range(rounds):
                self.wait_until(lambda: sum(len(caller.accepted) for caller in callers) > CALLERS, "calls are accepted")
                time.sleep(self.random.uniform(0.2, 0.8))
                harm()
        finally:
            for caller in callers:
                caller.enough.set()
            for caller in callers:
                caller.join(60)
        accepted = {}
        for caller in callers:
            self.assertEqual(caller.unexpected, [])
            accepted.update(caller.accepted)
        self.assertGreater(len(accepted), CALLERS)
        return accepted

    def wait_until(self, is_so, what, seconds=60):
        deadline = time.monotonic() + seconds
        while not is_so():
            self.assertLess(time.monotonic(), deadline, f"within {seconds} s: {what}")
            time.sleep(0.01)

    def results(self, accepted):
        """Waits for the record of every accepted call; gives those that did not succeed. A success is the call's own answer."""
        failed = []
        for activation_id, n in accepted.items():
            response = self.server.activation(activation_id, seconds=180)["response"]
            if response["success"]:
                self.assertEqual(response["result"], {"n": n})
            else:
                failed.append(response)
        return failed

    def assert_works_and_leaves_nothing(self):
        for language in CODE:
            status, record = self.server.invoke(f"forked-{language}", {"n": 5})
            self.assertEqual((status, record["response"]["result"]), (200, {"n": 5}))
            answer = self.server.request("GET", f"/v1/explain/forked-{language}").json()
            self.assertEqual(answer["strategy"]["start"], "fork")
        self.server.stop()
        assert_nothing_left(self.server)
        self.assertEqual(list(unfinished_in(self.server)), [])

    def test_killed_servers_lose_no_call_and_leave_nothing(self):
        accepted = {}
        for _ in range(max(2, ROUNDS // 2)):
            accepted.update(self.under_load(self.server.kill, 1))
            assert_nothing_left(self.server)
            self.server.start()
        self.assertEqual([response for response in self.results(accepted) if response["status"] != "whisk internal error"], [])
        self.assert_works_and_leaves_nothing()

    def test_killed_launchers_are_replaced_and_lose_no_call(self):
        def harm():
            launchers = [pid for pid in children(self.server.process.pid) if b"__launcher" in read(pid, "cmdline")]
            for pid in launchers:
                kill(pid)

        accepted = self.under_load(harm, 3)
        self.assert_failed_by_the_crash_only(self.results(accepted))
        self.assert_works_and_leaves_nothing()

    def test_killed_zygotes_are_replaced_and_calls_go_on(self):
        killed = []

        def harm():
            # After each round others take their places, as soon as a call comes.
            self.wait_until(lambda: set(self.zygotes()) - set(killed), "there is a zygote that was not killed yet")
            for zygote in self.zygotes():
                killed.append(zygote)
                kill(zygote)

        accepted = self.under_load(harm, ROUNDS)
        self.assertGreater(len(set(killed)), ROUNDS, "each round met another zygote")
        self.assert_failed_by_the_crash_only(self.results(accepted))
        self.assert_works_and_leaves_nothing()

    def test_killed_clones_end_their_own_call_only(self):
        killed = set()

        def harm():
            for zygote in self.zygotes():
                for clone in children(zygote)[:2]:
                    killed.add(clone)
                    kill(clone)

        def harm_somebody():
            before = len(killed)

            def has_met_one():
                harm()
                return len(killed) > before

            self.wait_until(has_met_one, "a clone is there to be killed")

        accepted = self.under_load(harm_somebody, ROUNDS * 2)
        failed = self.results(accepted)
        self.assertGreater(len(killed), ROUNDS)
        self.assertLessEqual(len(failed), len(killed))
        self.assert_failed_by_the_crash_only(failed)
        self.assertNotIn("tampered", self.server.log_text())
        self.assert_works_and_leaves_nothing()

    def assert_failed_by_the_crash_only(self, failed):
        """A call whose process was killed says so, as with any process; none fails otherwise."""
        for response in failed:
            self.assertEqual(response["status"], "action developer error", response)
            self.assertIn("exited unexpectedly", response["result"]["error"])

    def zygotes(self):
        """The runtimes that calls are forked from, and those that wait to become one: children of the first processes of this server's sandboxes."""
        launchers = [pid for pid in children(self.server.process.pid) if b"__launcher" in read(pid, "cmdline")]
        inits = [init for launcher in launchers for init in children(launcher)]
        return [main for init in inits for main in children(init) if b"shim" in read(main, "cmdline")]


def read(pid, name):
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def children(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in task.read_text().split()]
        except OSError:
            pass
    return found


def kill(pid):
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        pass


if __name__ == "__main__":
    unittest.main()
