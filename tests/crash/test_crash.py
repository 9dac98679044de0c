"""kill -9 of the server at random moments under load.

CRASH_ROUNDS sets how often (default 8); CRASH_SEED repeats a run.
"""

import json
import os
import random
import shutil
import tempfile
import threading
import time
import unittest
from pathlib import Path

from flint_server import Server, assert_nothing_left, wait_for

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "8"))
SEED = int(os.environ.get("CRASH_SEED", str(random.randrange(1 << 32))))
CALLERS = 8
MAX_ATTEMPTS = 3

WORK = """
import time
def main(params):
    time.sleep(params.get('sleep', 0))
    print('ran', params['n'])
    return {'n': params['n']}
"""

# Calls another one through the gate of its sandbox, and waits.
CALLER = """
import base64, json, os, urllib.request
def main(params):
    url = os.environ['__OW_API_HOST'] + '/api/v1/namespaces/_/actions/slow?blocking=true'
    key = base64.b64encode(os.environ['__OW_API_KEY'].encode()).decode()
    headers = {'Authorization': 'Basic ' + key, 'Content-Type': 'application/json'}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(params).encode(), headers)) as answer:
        return {'called': answer.status}
"""


class Caller(threading.Thread):
    """Sends asynchronous calls until the server is gone, and keeps what was accepted."""

    def __init__(self, server, first, random_source):
        super().__init__(daemon=True)
        self.server, self.n, self.random = server, first, random_source
        self.accepted, self.unexpected, self.enough = {}, [], threading.Event()

    def run(self):
        while not self.enough.is_set():
            self.n += 1
            sleep = 0 if self.random.random() < 0.9 else 0.2
            try:
                answer = self.server.invoke_later("work", {"n": self.n, "sleep": sleep})
            except (OSError, ValueError):
                if self.enough.wait(0.005):
                    return
                continue
            if answer.status == 202:
                self.accepted[answer.json()["activationId"]] = self.n
            elif answer.status not in (429, 503):
                self.unexpected.append(answer)


class Crash(unittest.TestCase):
    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="flint-crash-")
        self.addCleanup(shutil.rmtree, self.data, ignore_errors=True)
        self.server = Server(self.data, {"FLINT_ASYNC__MAX_ATTEMPTS": str(MAX_ATTEMPTS)})
        self.addCleanup(self.server.remove)
        self.addCleanup(self.server.stop)

    def test_every_accepted_call_survives_kill_9(self):
        source = random.Random(SEED)
        print(f"CRASH_SEED={SEED}", flush=True)
        self.server.start()
        self.server.put("work", "python:default", WORK)
        accepted = {}
        for round_number in range(ROUNDS):
            callers = [
                Caller(self.server, (round_number * CALLERS + index) * 1_000_000, random.Random(source.random()))
                for index in range(CALLERS)
            ]
            for caller in callers:
                caller.start()
            wait_for(lambda: any(caller.accepted for caller in callers), 120, "an accepted call")
            time.sleep(source.uniform(0, 1.5))
            self.server.kill()
            for caller in callers:
                caller.enough.set()
            for caller in callers:
                caller.join(60)
                self.assertEqual(caller.unexpected, [])
                accepted.update(caller.accepted)
            assert_nothing_left(self.server)
            self.server.start()
        print(f"{len(accepted)} calls accepted in {ROUNDS} rounds", flush=True)
        self.assertGreaterEqual(len(accepted), ROUNDS)
        for activation_id, n in accepted.items():
            record = self.server.activation(activation_id, seconds=120)
            response, begun = record["response"], attempts(record)
            self.assertLessEqual(begun, MAX_ATTEMPTS, record)
            if response["status"] == "whisk internal error":
                self.assertEqual(begun, MAX_ATTEMPTS, f"a call may fail by the platform only when it has had all its attempts: {record}")
                continue
            self.assertEqual((response["status"], response["result"]), ("success", {"n": n}), record)
        self.server.stop()
        assert_nothing_left(self.server)

    def test_kill_9_while_functions_run_leaves_nothing(self):
        self.server.start()
        self.server.put("work", "python:default", WORK)
        self.server.put("spin", "nodejs:default", "function main() { while (true) {} }")
        for n in range(2):
            self.server.invoke_later("work", {"n": n, "sleep": 30})
            self.server.invoke_later("spin")
        wait_for(lambda: self.server.busy() > 2, 120, "functions that run, some of each kind")
        self.server.kill()
        assert_nothing_left(self.server)
        self.server.start()
        self.server.kill()
        assert_nothing_left(self.server)

    def test_kill_9_while_functions_call_each_other_leaves_nothing(self):
        self.server.start()
        self.server.put("slow", "python:default", WORK)
        key = [{"key": "provide-api-key", "value": True}]
        self.server.put("caller", "python:default", CALLER, annotations=key)
        for n in range(4):
            self.server.invoke_later("caller", {"n": n, "sleep": 30})

        def waiting():
            return int(self.server.request("GET", "/activation/count").body) >= 8

        wait_for(waiting, 60, "calls that wait for others")
        self.server.kill()
        assert_nothing_left(self.server)
        self.server.start()
        status, record = self.server.invoke("caller", {"n": 1, "sleep": 0})
        self.assertEqual((status, record["response"]["result"]["called"]), (200, 200), record)

    def test_kill_9_while_deploying_leaves_a_catalog_that_opens(self):
        self.server.start()
        for round_number in range(3):
            enough = threading.Event()
            written = {}

            def deploy():
                n = 0
                while not enough.is_set():
                    n += 1
                    try:
                        self.server.put(f"f{n % 7}", "nodejs:default", f"function main() {{ return {{n: {n}}} }}")
                        written[f"f{n % 7}"] = n
                    except (OSError, ValueError, AssertionError):
                        return

            deployer = threading.Thread(target=deploy, daemon=True)
            deployer.start()
            time.sleep(0.3 + 0.2 * round_number)
            self.server.kill()
            enough.set()
            deployer.join(60)
            self.server.start()
            for name, n in written.items():
                status, record = self.server.invoke(name)
                self.assertEqual(status, 200, record)
                # The write after the last acknowledged one may have been made as well.
                self.assertGreaterEqual(record["response"]["result"]["n"], n)

    def test_the_launcher_is_replaced_when_it_is_killed(self):
        self.server.start()
        self.server.put("work", "python:default", WORK)
        self.assertEqual(self.server.invoke("work", {"n": 1})[0], 200)
        os.kill(launcher_of(self.server), 9)

        def answers_again():
            status, _ = self.server.invoke("work", {"n": 2})
            return status == 200

        wait_for(answers_again, 120, "an answer after the launcher was killed")
        self.server.stop()
        assert_nothing_left(self.server)

    def test_a_server_that_stops_right_after_its_launcher_was_killed_leaves_nothing(self):
        self.server.start()
        self.server.put("work", "python:default", WORK)
        self.server.put("spin", "nodejs:default", "function main() { while (true) {} }")
        for n in range(2):
            self.server.invoke_later("work", {"n": n, "sleep": 30})
        self.server.invoke_later("spin")
        wait_for(lambda: self.server.busy() > 2, 120, "functions that run, some of each kind")
        os.kill(launcher_of(self.server), 9)
        self.server.stop()
        assert_nothing_left(self.server)


def attempts(record):
    """How many attempts at a call were begun. A call that was given up has them all in its list; else the record itself is the last one."""
    earlier = next((pair["value"] for pair in record["annotations"] if pair["key"] == "attempts"), [])
    return len(earlier) + ("given up after" not in json.dumps(record["response"]))


def launcher_of(server):
    return next(
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if is_launcher_of(path, server.process.pid)
    )


def is_launcher_of(cmdline, server):
    try:
        status = (cmdline.parent / "status").read_text()
        return b"__launcher" in cmdline.read_bytes() and f"PPid:\t{server}\n" in status
    except OSError:
        return False


if __name__ == "__main__":
    unittest.main()
