"""kill -9 of the server while messages come from a stream of NATS: each fires its trigger, and none is fired for twice. Once the broker is
away too.

CRASH_MESSAGE_ROUNDS sets how often (default 4); CRASH_SEED repeats a run.
"""

import os
import random
import shutil
import tempfile
import threading
import time
import unittest

from flint_server import GUEST, Server, assert_nothing_left, wait_for
from nats_server import NatsServer, Sender

ROUNDS = int(os.environ.get("CRASH_MESSAGE_ROUNDS", "4"))
SEED = int(os.environ.get("CRASH_SEED", str(random.randrange(1 << 32))))
SUBJECTS = ["work.0", "work.1"]

# The record says which messages it was called with.
WORK = """
def main(params):
    return {'got': [[message['subject'], message['value'], message['sequence']] for message in params['messages']]}
"""


class CrashOfMessages(unittest.TestCase):
    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="flint-crash-")
        self.addCleanup(shutil.rmtree, self.data, ignore_errors=True)
        self.broker = NatsServer()
        self.addCleanup(self.broker.remove)
        settings = {
            "FLINT_ASYNC__MAX_ATTEMPTS": str(ROUNDS + 1),  # more than crashes
            "FLINT_LIMITS__FIRES_PER_MINUTE": "1000000",
            "FLINT_FEEDS__NATS_HOSTS": f'["{self.broker.host}"]',
            "FLINT_FEEDS__NATS_ALLOW_PRIVATE": "true",
        }
        self.server = Server(self.data, settings)
        self.addCleanup(self.server.remove)
        self.addCleanup(self.server.stop)

    def write(self, path, body):
        answer = self.server.request("PUT", f"/api/v1/namespaces/_/{path}?overwrite=true", body)
        self.assertEqual(answer.status, 200, answer)

    def feed(self, trigger, event, **given):
        body = {"lifecycleEvent": event, "triggerName": f"/_/{trigger}", "authKey": GUEST, **given}
        path = "/api/v1/namespaces/whisk.system/actions/messaging/natsFeed?blocking=true&result=true"
        answer = self.server.request("POST", path, body)
        self.assertEqual(answer.status, 200, answer)
        return answer.json()

    def got(self):
        """The messages of every recorded call."""
        found, skip = [], 0
        while True:
            path = f"/api/v1/namespaces/_/activations?docs=true&name=work&limit=200&skip={skip}"
            records = self.server.request("GET", path).json()
            for record in records:
                self.assertTrue(record["response"]["success"], record)
                found.extend(map(tuple, record["response"]["result"]["got"]))
            if len(records) < 200:
                return found
            skip += len(records)

    def test_no_message_of_a_stream_is_lost_or_fired_for_twice_by_kill_9(self):
        source = random.Random(SEED)
        print(f"CRASH_SEED={SEED}", flush=True)
        self.broker.start()
        first = Sender(self.broker)
        first.create_stream("WORK", "work.*")
        first.close()
        self.server.start()
        self.server.put("work", "python:default", WORK)
        for n, subject in enumerate(SUBJECTS):
            self.write(f"triggers/t{n}", {})
            self.write(f"rules/r{n}", {"trigger": f"/_/t{n}", "action": "/_/work"})
            # All, so that it does not matter whether it listens already.
            given = {"servers": [self.broker.host], "subject": subject, "stream": "WORK", "deliver": "all"}
            self.feed(f"t{n}", "CREATE", **given)

        sent, failures, enough = [], [], threading.Event()

        def send():
            try:
                sender = Sender(self.broker)
                while not enough.is_set():
                    subject, value = random.choice(SUBJECTS), str(len(sent))
                    sent.append((subject, value, sender.store(subject, value)))
                    time.sleep(0.002)
                sender.close()
            except Exception as error:  # told by the test's own thread
                failures.append(error)

        def start_sending():
            enough.clear()
            thread = threading.Thread(target=send)
            thread.start()
            return thread

        def fired():
            return [self.feed(f"t{n}", "READ")["status"]["fired"] for n in range(len(SUBJECTS))]

        thread = start_sending()
        try:
            for round in range(ROUNDS):
                before = fired()
                wait_for(lambda: all(a > b for a, b in zip(fired(), before)), 120, "a firing of every trigger")
                time.sleep(source.uniform(0, 1))
                self.server.kill()
                assert_nothing_left(self.server)
                if round == ROUNDS // 2:
                    enough.set()
                    thread.join()
                    self.broker.stop()
                    self.broker.start()
                    thread = start_sending()
                self.server.start()
        finally:
            enough.set()
            thread.join()
        self.assertEqual(failures, [])
        self.assertGreater(len(sent), 0)
        # A record that comes between two pages moves what follows: pages may have one twice until all are there.
        wait_for(lambda: set(self.got()) >= set(sent), 300, f"the calls of {len(sent)} messages")
        got = self.got()
        self.assertEqual(sorted(got, key=lambda one: one[2]), sorted(sent, key=lambda one: one[2]))
        print(f"{len(sent)} messages in {ROUNDS + 1} lives, each in one event", flush=True)
        self.server.stop()
        assert_nothing_left(self.server)


if __name__ == "__main__":
    unittest.main()
