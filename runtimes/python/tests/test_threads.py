"""Threads that serve one call after the other."""

import threading
import time
import unittest

import support  # noqa: F401  finds the shim
from flint_shim.threads import Threads


class Kept(unittest.TestCase):
    def setUp(self):
        self.threads = Threads()
        self.local, self.served = threading.local(), []

    def call(self):
        self.local.calls = getattr(self.local, "calls", 0) + 1
        self.served.append((threading.get_ident(), self.local.calls))

    def run_to_its_end(self, work):
        """Of one thread at most."""
        self.threads.run(work)
        while not self.threads._idle:
            time.sleep(0.001)

    def test_a_thread_serves_one_call_after_the_other(self):
        for _ in range(3):
            self.run_to_its_end(self.call)
        self.assertEqual([calls for _, calls in self.served], [1, 2, 3])
        self.assertEqual(len({thread for thread, _ in self.served}), 1)

    def test_calls_at_once_have_a_thread_each_and_these_stay(self):
        together = threading.Barrier(4)

        def work():
            self.call()
            together.wait()

        for _ in range(2):
            for _ in range(3):
                self.threads.run(work)
            together.wait()
            while len(self.threads._idle) < 3:
                time.sleep(0.001)
        self.assertEqual(sorted(calls for _, calls in self.served), [1, 1, 1, 2, 2, 2])

    def test_a_thread_that_ends_with_its_call_is_given_no_other(self):
        def exits():
            raise SystemExit

        self.threads.run(exits)
        self.run_to_its_end(self.call)
        self.assertEqual([calls for _, calls in self.served], [1])


if __name__ == "__main__":
    unittest.main()
