"""kill -9 in the middle of sequences and compositions: each that was accepted is found again, finished or failed, with its record.

CRASH_ROUNDS sets how often (default 5); CRASH_SEED repeats a run.
"""

import os
import random
import shutil
import tempfile
import threading
import time
import unittest

from flint_server import Server, assert_nothing_left, wait_for

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "5"))
SEED = int(os.environ.get("CRASH_SEED", str(random.randrange(1 << 32))))
STEPS = 4

STEP = """
import time
def main(params):
    time.sleep(params.get('sleep', 0))
    return {**params, 'at': params.get('at', 0) + 1}
"""

# Calls `step` as often as a sequence of STEPS does.
CONDUCTOR = """
function main(params) {
  if (params.error) return { error: params.error };
  const { at = 0, ...rest } = params;
  return at < %d ? { action: 'step', params: { ...rest, at } } : { params: { ...rest, at } };
}
""" % STEPS


class Caller(threading.Thread):
    """Calls compositions until the server is gone; some wait for the answer, some do not."""

    def __init__(self, server, first, random_source):
        super().__init__(daemon=True)
        self.server, self.n, self.random = server, first, random_source
        self.accepted, self.answered, self.unexpected, self.enough = {}, {}, [], threading.Event()

    def run(self):
        while not self.enough.is_set():
            self.n += 1
            name = self.random.choice(["chain", "conductor"])
            arguments = {"n": self.n, "sleep": self.random.choice([0, 0, 0.05])}
            try:
                if self.random.random() < 0.5:
                    answer = self.server.invoke_later(name, arguments)
                    if answer.status == 202:
                        self.accepted[answer.json()["activationId"]] = arguments
                    elif answer.status not in (429, 503):
                        self.unexpected.append(answer)
                else:
                    status, record = self.server.invoke(name, arguments)
                    if status == 200:
                        self.answered[record["activationId"]] = arguments
                    elif status not in (202, 429, 503):
                        self.unexpected.append((status, record))
            except (OSError, ValueError):
                if self.enough.wait(0.005):
                    return


class Compositions(unittest.TestCase):
    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="flint-crash-")
        self.addCleanup(shutil.rmtree, self.data, ignore_errors=True)
        self.server = Server(self.data)
        self.addCleanup(self.server.remove)
        self.addCleanup(self.server.stop)

    def put(self, name, body):
        answer = self.server.request(
            "PUT", f"/api/v1/namespaces/_/actions/{name}?overwrite=true", body
        )
        self.assertEqual(answer.status, 200, answer)

    def start(self):
        self.server.start()
        self.server.put("step", "python:default", STEP)
        conductor = {"exec": {"kind": "nodejs:default", "code": CONDUCTOR}}
        self.put("conductor", {**conductor, "annotations": [{"key": "conductor", "value": True}]})
        self.put("chain", {"exec": {"kind": "sequence", "components": ["/_/step"] * STEPS}})

    def test_every_composition_survives_kill_9(self):
        source = random.Random(SEED)
        print(f"CRASH_SEED={SEED}", flush=True)
        self.start()
        accepted, answered = {}, {}
        for round_number in range(ROUNDS):
            callers = [
                Caller(self.server, (round_number * 8 + index) * 1_000_000, random.Random(source.random()))
                for index in range(4)
            ]
            for caller in callers:
                caller.start()
            wait_for(lambda: any(caller.accepted for caller in callers), 120, "an accepted composition")
            time.sleep(source.uniform(0, 2))
            self.server.kill()
            for caller in callers:
                caller.enough.set()
            for caller in callers:
                caller.join(60)
                self.assertEqual(caller.unexpected, [])
                accepted.update(caller.accepted)
                answered.update(caller.answered)
            assert_nothing_left(self.server)
            self.server.start()
        print(f"{len(accepted)} accepted, {len(answered)} answered in {ROUNDS} rounds", flush=True)
        self.assertGreaterEqual(len(accepted), ROUNDS)
        for activation_id, arguments in {**accepted, **answered}.items():
            self.check(self.server.activation(activation_id, seconds=600), arguments)
        self.server.stop()
        assert_nothing_left(self.server)

    def check(self, record, arguments):
        response = record["response"]
        if response["status"] != "success":
            # Only a step that had all its attempts ends one: there are more rounds than attempts.
            self.assertIn("given up after 3 attempts", str(response["result"]), record)
            return
        self.assertEqual(response["result"], {**arguments, "at": STEPS}, record)
        calls = STEPS if record["name"] == "chain" else 2 * STEPS + 1
        self.assertEqual(len(record["logs"]), calls, record)
        self.assertEqual(len(set(record["logs"])), calls, record)

    def test_a_waiting_callers_sequence_goes_on_where_it_was(self):
        self.start()
        once = "import time, pathlib\ndef main(params):\n    time.sleep(3)\n    return params\n"
        self.server.put("slow", "python:default", once)
        self.put("chain", {"exec": {"kind": "sequence", "components": ["/_/step", "/_/slow", "/_/step"]}})

        def call():
            try:
                self.server.invoke("chain", {"n": 7})
            except (OSError, ValueError):
                pass  # the server was killed

        caller = threading.Thread(target=call, daemon=True)
        caller.start()
        wait_for(lambda: self.records("step"), 60, "the first step")
        self.server.kill()
        caller.join(60)
        self.server.start()
        record = wait_for(lambda: self.records("chain"), 120, "the record of the sequence")[0]
        self.assertEqual(record["response"]["result"], {"n": 7, "at": 2})
        self.assertEqual(len(record["logs"]), 3)

    def records(self, name):
        return self.server.request("GET", f"/api/v1/namespaces/_/activations?name={name}&docs=true").json()


if __name__ == "__main__":
    unittest.main()
