"""A server with hostile functions on it, each deployed under a strategy of its own."""

import unittest
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

from flint_server import Server, assert_nothing_left

NEIGHBOUR = "function main(params) { return { echo: params.n } }"
KINDS = {"js": "nodejs:default", "py": "python:default"}
# For what is to meet its time limit, and for what is not, however busy the machine is.
SHORT = {"timeout_ms": 6000, "memory_mb": 128}
# For what is to meet it and did not get that far in the short time. Callers wait for a minute at most.
LONGER = {**SHORT, "timeout_ms": 40000}
PATIENT = {"timeout_ms": 60000, "memory_mb": 128}
# For what takes so long that its caller may stop waiting for it.
LONG = {"timeout_ms": 290000, "memory_mb": 128}
PYTHON_PRELUDE = """
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(action):
    try:
        value = action()
    except BaseException as error:
        return type(error).__name__
    return 'allowed' if value is None or value is True else repr(value)
def syscall(*arguments):
    result = libc.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    return os.strerror(ctypes.get_errno()) if result < 0 else 'allowed'
"""


class UnderAttack(unittest.TestCase):
    """After each attack a well-behaved function of the same server must still answer, and at the end nothing may be left."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server().start()
        cls.server.put("neighbour", KINDS["js"], NEIGHBOUR)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        assert_nothing_left(cls.server)
        cls.server.remove()

    def tearDown(self):
        status, record = self.server.invoke("neighbour", {"n": 7})
        self.assertEqual((status, record["response"]["result"]), (200, {"echo": 7}))

    def deploy(self, name, language, code, start="fork", reuse="never", limits=None, warmup=(), **fields):
        """Deploys; gives what was prepared, or the error as {"refused": …}."""
        request = {
            "kind": KINDS[language], "code": {"format": "source", "text": code}, "limits": limits or SHORT,
            "start": start, "reuse": reuse, "snapshot": {"warmup": [{"params": event} for event in warmup]}, **fields,
        }
        if start is None:  # the platform's own choice, which may fall back
            del request["start"], request["reuse"]
        answer = self.server.request("PUT", f"/v1/functions/{name}", request)
        if answer.status not in (200, 201):
            return {"refused": answer.body.decode()}
        return answer.json()["function"]["prepared"]

    def record(self, name, params=None):
        """Status and record of a blocking call, also of one that outlasts its caller's wait."""
        status, record = self.server.invoke(name, params)
        if status == 202:
            record = self.server.activation(record["activationId"], seconds=300)
            status = 200 if record["response"]["success"] else 502
        return status, record

    def call(self, name, params=None):
        """Status and response of a blocking call."""
        status, record = self.record(name, params)
        return status, record["response"]

    def each(self, check, cases, at_once=6):
        """check(number, *case) for every case, some at once: most of them wait. Fails with all that failed."""

        def attempt(numbered):
            number, case = numbered
            try:
                check(number, *case)
            except Exception as error:  # a failed assertion, or whatever it runs into
                return f"{case}: {type(error).__name__}: {error}"

        with ThreadPoolExecutor(at_once) as pool:
            failed = [error for error in pool.map(attempt, enumerate(cases)) if error]
        self.assertEqual(failed, [], "\n\n".join(failed))

    def at_once(self, calls):
        """Makes the calls [(name, params)] side by side; gives their (status, response) in order."""
        answers = [None] * len(calls)

        def make(index, name, params):
            answers[index] = self.call(name, params)

        threads = [Thread(target=make, args=(index, *call)) for index, call in enumerate(calls)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
        return answers

    def server_log(self):
        return (self.server.scratch / "server.log").read_text(errors="replace")
