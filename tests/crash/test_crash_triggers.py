"""kill -9 of the server while triggers are fired: what a fire was answered with 202 for, happens, and is on record.

CRASH_TRIGGER_ROUNDS sets how often (default 4); CRASH_SEED repeats a run.
"""

import os
import random
import shutil
import tempfile
import threading
import time
import unittest

from flint_server import Server, assert_nothing_left, wait_for

ROUNDS = int(os.environ.get("CRASH_TRIGGER_ROUNDS", "4"))
SEED = int(os.environ.get("CRASH_SEED", str(random.randrange(1 << 32))))
CALLERS = 4
RULES = 3

# The record says for which rule and which event it ran.
WORK = """
def main(params):
    return {'event': params['event'], 'rule': params['rule']}
"""


class Caller(threading.Thread):
    """Fires until the server is gone, and keeps the events that were answered with 202, each with the id of its firing."""

    def __init__(self, server, name):
        super().__init__(daemon=True)
        self.server, self.name_of_events = server, name
        self.accepted, self.unexpected, self.enough = [], [], threading.Event()

    def run(self):
        number = 0
        while not self.enough.is_set():
            number += 1
            event = f"{self.name_of_events}-{number}"
            try:
                answer = self.server.request("POST", "/api/v1/namespaces/_/triggers/event", {"event": event})
            except (OSError, ValueError):
                if self.enough.wait(0.005):
                    return
                continue
            if answer.status == 202:
                self.accepted.append((event, answer.json()["activationId"]))
            elif answer.status not in (429, 503):
                self.unexpected.append(answer)


class CrashOfTriggers(unittest.TestCase):
    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="flint-crash-")
        self.addCleanup(shutil.rmtree, self.data, ignore_errors=True)
        # More attempts than crashes, and no firing whose calls are refused for being too many.
        self.server = Server(
            self.data,
            {"FLINT_ASYNC__MAX_ATTEMPTS": str(ROUNDS + 1), "FLINT_LIMITS__CONCURRENT_INVOCATIONS": "1000000"},
        )
        self.addCleanup(self.server.remove)
        self.addCleanup(self.server.stop)

    def write(self, path, body):
        answer = self.server.request("PUT", f"/api/v1/namespaces/_/{path}?overwrite=true", body)
        self.assertEqual(answer.status, 200, answer)

    def recorded(self):
        """`(event, rule)` of every recorded call, and `(event, id)` of every recorded firing."""
        calls, firings, skip = set(), set(), 0
        while True:
            path = f"/api/v1/namespaces/_/activations?docs=true&limit=200&skip={skip}"
            records = self.server.request("GET", path).json()
            for record in records:
                result = record["response"]["result"]
                if record["name"] == "event":
                    firings.add((result["event"], record["activationId"]))
                elif record["response"]["success"] and "rule" in result:
                    calls.add((result["event"], result["rule"]))
            if len(records) < 200:
                return calls, firings
            skip += len(records)

    def test_every_call_of_an_accepted_firing_survives_kill_9(self):
        source = random.Random(SEED)
        print(f"CRASH_SEED={SEED}", flush=True)
        self.server.start()
        self.write("triggers/event", {})
        for rule in range(RULES):
            self.server.put(f"work{rule}", "python:default", WORK)
            self.write(f"actions/work{rule}", {"parameters": [{"key": "rule", "value": rule}]})
            self.write(f"rules/rule{rule}", {"trigger": "/_/event", "action": f"/_/work{rule}"})
        accepted = []
        for round_number in range(ROUNDS):
            callers = [Caller(self.server, f"{round_number}-{index}") for index in range(CALLERS)]
            for caller in callers:
                caller.start()
            wait_for(lambda: any(caller.accepted for caller in callers), 120, "an accepted firing")
            time.sleep(source.uniform(0, 1.2))
            self.server.kill()
            for caller in callers:
                caller.enough.set()
            for caller in callers:
                caller.join(60)
                self.assertEqual(caller.unexpected, [])
                accepted.extend(caller.accepted)
            assert_nothing_left(self.server)
            self.server.start()
        print(f"{len(accepted)} firings accepted in {ROUNDS} rounds", flush=True)
        self.assertGreaterEqual(len(accepted), ROUNDS)
        # The list is read in pages while calls are recorded: what is added makes a reader see one twice, never pass over one.
        lost = set(accepted) - self.recorded()[1]
        self.assertEqual(lost, set(), f"{len(lost)} of {len(accepted)} firings have no record")
        wanted = {(event, rule) for event, _ in accepted for rule in range(RULES)}
        end = time.monotonic() + 300
        while missing := wanted - self.recorded()[0]:
            self.assertLess(time.monotonic(), end, f"{len(missing)} of {len(wanted)} calls are lost: {sorted(missing)[:5]}")
            time.sleep(0.5)
        self.server.stop()
        assert_nothing_left(self.server)


if __name__ == "__main__":
    unittest.main()
