"""Threads that serve one call after the other: what a function keeps for each thread, such as a connection, serves many calls, and no call
waits for the start of a thread while one has nothing to do."""

import threading
from queue import SimpleQueue


class Threads:
    """About as many as there were calls at once: one is idle only some time after its call was answered."""

    def __init__(self):
        self._idle = []

    def run(self, work):
        """Runs `work` in a thread that has nothing to do, the one that worked last, or else in a new one. RuntimeError when there can be none."""
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), name="flint-call", daemon=True).start()
        inbox.put(work)

    def _serve(self, inbox):
        while True:
            inbox.get()()  # nothing of the last call is kept while this waits
            self._idle.append(inbox)
