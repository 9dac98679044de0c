"""kill -9 of the server while calls fail, wait for their next attempt, become dead letters and are redriven.

CRASH_RETRY_ROUNDS sets how often (default 5); CRASH_SEED repeats a run.
"""

import collections
import os
import random
import shutil
import tempfile
import threading
import time
import unittest

from flint_server import Server, assert_nothing_left, wait_for

ROUNDS = int(os.environ.get("CRASH_RETRY_ROUNDS", "5"))
SEED = int(os.environ.get("CRASH_SEED", str(random.randrange(1 << 32))))
CALLERS = 4
RETRIES = 3

# Most attempts fail, and some calls always do.
WORK = """
import os, random
def main(params):
    if params['n'] % 4 == 0 or random.SystemRandom().random() < 0.6:
        os._exit(3)
    return {'n': params['n']}
"""


class Client(threading.Thread):
    """Repeats something until it is told to stop; the server may go away at any time."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.unexpected, self.enough = server, [], threading.Event()

    def run(self):
        while not self.enough.is_set():
            try:
                self.once()
            except (OSError, ValueError):
                if self.enough.wait(0.005):
                    return


class Caller(Client):
    def __init__(self, server, first):
        super().__init__(server)
        self.n, self.accepted = first, {}

    def once(self):
        self.n += 1
        answer = self.server.invoke_later("work", {"n": self.n})
        if answer.status == 202:
            self.accepted[answer.json()["activationId"]] = self.n
        elif answer.status not in (429, 503):
            self.unexpected.append(answer)


class Redriver(Client):
    """Redrives a few letters at a time, as two people might do at once."""

    def __init__(self, server):
        super().__init__(server)
        self.redriven = {}

    def once(self):
        answer = self.server.request("POST", "/v1/dead-letters/redrive", {"limit": 3})
        if answer.status != 202:
            self.unexpected.append(answer)
            return
        for one in answer.json()["redriven"]:
            self.redriven[one["letter"]] = one["activation"]
        self.enough.wait(0.05)


class CrashOfRetries(unittest.TestCase):
    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="flint-crash-")
        self.addCleanup(shutil.rmtree, self.data, ignore_errors=True)
        self.server = Server(self.data)
        self.addCleanup(self.server.remove)
        self.addCleanup(self.server.stop)

    def records(self):
        found, skip = {}, 0
        while True:
            path = f"/api/v1/namespaces/_/activations?docs=true&limit=200&skip={skip}"
            page = self.server.request("GET", path).json()
            for record in page:
                record["annotations"] = {pair["key"]: pair["value"] for pair in record["annotations"]}
                found[record["activationId"]] = record
            if len(page) < 200:
                return found
            skip += len(page)

    def letters(self):
        found, skip = {}, 0
        while True:
            page = self.server.request("GET", f"/v1/dead-letters?limit=1000&skip={skip}").json()["dead_letters"]
            found.update((letter["id"], letter) for letter in page)
            if len(page) < 1000:
                return found
            skip += len(page)

    def all_is_quiet(self):
        """No call is accepted, running or waiting any more."""
        end = time.monotonic() + 300
        while "flint_async_queue_depth 0\n" not in self.server.request("GET", "/metrics").body.decode():
            self.assertLess(time.monotonic(), end, "accepted calls do not come to an end")
            time.sleep(0.2)

    def test_every_failing_call_survives_kill_9(self):
        source = random.Random(SEED)
        print(f"CRASH_SEED={SEED}", flush=True)
        self.server.start()
        policy = {"retries": RETRIES, "backoff": "100ms", "max_backoff": "400ms"}
        self.server.put("work", "python:default", WORK, annotations=[{"key": "flint-retry", "value": policy}])
        accepted, redriven = {}, {}
        for round_number in range(ROUNDS):
            callers = [Caller(self.server, (round_number * CALLERS + index) * 1_000_000) for index in range(CALLERS)]
            redrivers = [Redriver(self.server) for _ in range(2)]
            for client in callers + redrivers:
                client.start()
            time.sleep(source.uniform(0.5, 2.5))
            if round_number == ROUNDS - 1:
                # By then each side has met the other, however slow the machine is.
                wait_for(lambda: redriven or any(one.redriven for one in redrivers), 180, "a letter that is redriven")
            self.server.kill()
            for client in callers + redrivers:
                client.enough.set()
            for client in callers + redrivers:
                client.join(60)
                self.assertEqual(client.unexpected, [])
            for caller in callers:
                accepted.update(caller.accepted)
            for redriver in redrivers:
                self.assertFalse(redriven.keys() & redriver.redriven.keys(), "a letter is redriven once")
                redriven.update(redriver.redriven)
            assert_nothing_left(self.server)
            self.server.start()
        self.all_is_quiet()
        records, letters = self.records(), self.letters()
        print(f"{len(accepted)} calls accepted, {len(redriven)} redriven, {len(letters)} letters left", flush=True)
        self.assertGreaterEqual(len(accepted), ROUNDS)
        self.assertTrue(letters)
        self.assertTrue(redriven)

        # Attempts have their call as cause, redriven calls their letter.
        attempts, calls_of = collections.defaultdict(list), collections.defaultdict(list)
        for record in records.values():
            if "cause" in record:
                place = attempts if "attempt" in record["annotations"] else calls_of
                place[record["cause"]].append(record)
        for letter, activation in redriven.items():
            self.assertEqual([call["activationId"] for call in calls_of[letter]], [activation])
        pending = list(accepted)
        seen = 0
        while pending:
            call = pending.pop()
            seen += 1
            self.assertIn(call, records, "a call is lost")
            record = records[call]
            earlier = record["annotations"].get("attempts", [])
            made = len(earlier) + (0 if record["annotations"]["kind"] == "unknown" else 1)
            self.assertLessEqual(made, RETRIES + 1, record)
            numbers = [attempt["annotations"]["attempt"] for attempt in attempts[call]]
            self.assertEqual(len(numbers), len(set(numbers)), "an attempt is there twice")
            self.assertTrue(all(number <= RETRIES for number in numbers), numbers)
            named = {attempt["activationId"] for attempt in earlier if "activationId" in attempt}
            self.assertTrue(named <= {attempt["activationId"] for attempt in attempts[call]}, "its record is lost")
            again = [one["activationId"] for one in calls_of[call]]
            if record["response"]["success"]:
                self.assertEqual((again, call in letters), ([], False))
                continue
            # A letter still, or a call again: one of them, and once.
            self.assertEqual(made, RETRIES + 1, "it was given up with attempts left")
            self.assertEqual(len(again) + (call in letters), 1, (call, again, call in letters))
            pending.extend(again)
        self.assertEqual(seen, len(accepted) + sum(len(calls) for calls in calls_of.values()))
        self.server.stop()
        assert_nothing_left(self.server)


if __name__ == "__main__":
    unittest.main()
