"""kill -9 of the server while alarms fire every second: no instant fires twice, and no firing is without its call.

CRASH_FEED_ROUNDS sets how often (default 4); CRASH_SEED repeats a run.
"""

import os
import random
import shutil
import tempfile
import time
import unittest

from flint_server import GUEST, Server, assert_nothing_left, wait_for

ROUNDS = int(os.environ.get("CRASH_FEED_ROUNDS", "4"))
SEED = int(os.environ.get("CRASH_SEED", str(random.randrange(1 << 32))))
ALARMS = 4

# The record says for which trigger and which instant it ran.
WORK = """
def main(params):
    return {'of': params['of'], 'instant': params['__ow_headers']['x-flint-instant']}
"""


class CrashOfFeeds(unittest.TestCase):
    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="flint-crash-")
        self.addCleanup(shutil.rmtree, self.data, ignore_errors=True)
        # More attempts than crashes.
        self.server = Server(self.data, {"FLINT_ASYNC__MAX_ATTEMPTS": str(ROUNDS + 1)})
        self.addCleanup(self.server.remove)
        self.addCleanup(self.server.stop)

    def write(self, path, body):
        answer = self.server.request("PUT", f"/api/v1/namespaces/_/{path}?overwrite=true", body)
        self.assertEqual(answer.status, 200, answer)

    def feed(self, trigger, event, **given):
        body = {"lifecycleEvent": event, "triggerName": f"/_/{trigger}", "authKey": GUEST, **given}
        path = "/api/v1/namespaces/whisk.system/actions/alarms/alarm?blocking=true&result=true"
        answer = self.server.request("POST", path, body)
        self.assertEqual(answer.status, 200, answer)
        return answer.json()

    def fired(self):
        """How often each trigger says that it has fired."""
        return {n: self.feed(f"t{n}", "READ")["status"]["fired"] for n in range(ALARMS)}

    def events(self):
        """The instants of every recorded call, by trigger; one for each activation, also where a record that came between two pages shows one twice."""
        calls, skip = {}, 0
        while True:
            path = f"/api/v1/namespaces/_/activations?docs=true&name=work&limit=200&skip={skip}"
            records = self.server.request("GET", path).json()
            for record in records:
                self.assertTrue(record["response"]["success"], record)
                calls[record["activationId"]] = record["response"]["result"]
            if len(records) < 200:
                return {n: [call["instant"] for call in calls.values() if call["of"] == n] for n in range(ALARMS)}
            skip += len(records)

    def test_no_instant_is_lost_or_fired_for_twice_by_kill_9(self):
        source = random.Random(SEED)
        print(f"CRASH_SEED={SEED}", flush=True)
        self.server.start()
        self.server.put("work", "python:default", WORK)
        for n in range(ALARMS):
            self.write(f"triggers/t{n}", {})
            self.write(f"rules/r{n}", {"trigger": f"/_/t{n}", "action": "/_/work"})
            self.feed(f"t{n}", "CREATE", cron="* * * * * *", trigger_payload={"of": n})
        before = self.fired()
        for _ in range(ROUNDS):
            # Something fires in each life, and the kill comes anywhere between two firings.
            wait_for(lambda: all(self.fired()[n] > before[n] for n in range(ALARMS)), 120, "a firing of every trigger")
            time.sleep(source.uniform(0, 1.5))
            self.server.kill()
            assert_nothing_left(self.server)
            self.server.start()
            after = self.fired()
            self.assertTrue(all(after[n] >= before[n] for n in range(ALARMS)), f"{before} became {after}")
            before = after
        for n in range(ALARMS):
            self.feed(f"t{n}", "PAUSE")
        fired = self.fired()
        wait_for(
            lambda: sum(map(len, self.events().values())) >= sum(fired.values()), 300, f"the calls of {fired} firings"
        )
        events = self.events()
        for n in range(ALARMS):
            self.assertEqual(len(events[n]), fired[n], f"t{n}: a call for each firing, and none besides")
            self.assertEqual(len(set(events[n])), fired[n], f"t{n}: an instant fired twice: {sorted(events[n])}")
        print(f"{sum(fired.values())} firings in {ROUNDS + 1} lives, each with its call", flush=True)
        self.server.stop()
        assert_nothing_left(self.server)


if __name__ == "__main__":
    unittest.main()
