"""Which functions of the user's the warm-up reaches, and what runs them: the interpreter or machine code of numba's."""

import contextlib
import os
import sys

MOST = 200
"""How many functions a report names."""

_EVENTS = 500_000
_PACKAGES = ("site-packages", "dist-packages")


class Reached:
    def __init__(self, directory):
        self._directory = os.path.join(directory, "")
        self._calls = {}
        self._left = _EVENTS
        self.notes = []

    @contextlib.contextmanager
    def watched(self):
        """Counts calls of functions below the code's directory, until there were very many."""
        before = sys.getprofile()
        calls = self._calls

        def profile(frame, event, _):
            if event == "call":
                code = frame.f_code
                calls[code] = calls.get(code, 0) + 1
                self._left -= 1
                if not self._left:
                    self.notes.append(f"calls were counted up to {_EVENTS}")
                    sys.setprofile(None)

        sys.setprofile(profile)
        try:
            yield
        finally:
            sys.setprofile(before)
            for code in [code for code in calls if not self.is_users(code)]:
                del calls[code]

    def is_users(self, code):
        path = code.co_filename
        return path.startswith(self._directory) and not any(name in path for name in _PACKAGES) and not code.co_name.startswith("<")

    def codes(self):
        return list(self._calls)

    def report(self):
        """The functions, those left to the interpreter first."""
        compiled = {dispatcher.py_func.__code__: dispatcher for dispatcher in _dispatchers() if self.is_users(dispatcher.py_func.__code__)}
        found = [self._describe(code, "numba" if code in compiled else "python") for code in {**self._calls, **compiled}]
        return sorted(found, key=lambda function: (function["tier"] == "numba", -function["calls"]))

    def _describe(self, code, tier):
        return {"name": getattr(code, "co_qualname", code.co_name), "file": code.co_filename[len(self._directory):],
                "line": code.co_firstlineno, "tier": tier, "calls": self._calls.get(code, 0)}


def _dispatchers():
    """Functions that numba has compiled for at least one signature."""
    dispatcher = sys.modules.get("numba.core.dispatcher")
    if dispatcher is None:
        return []
    import gc

    return [found for found in gc.get_objects() if isinstance(found, dispatcher.Dispatcher) and found.signatures]
