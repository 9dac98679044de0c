"""Finds the functions of user code that the warm-up reaches, and whether the interpreter or numba's machine code runs them."""

import contextlib
import os
import sys
import types

MOST = 200
"""The number of functions that a report names."""

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
        """Counts calls of functions below the code's directory, up to a limit."""
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
        return self.is_users_file(code.co_filename) and not code.co_name.startswith("<")

    def is_users_file(self, path):
        return path.startswith(self._directory) and not any(name in path for name in _PACKAGES)

    def codes(self):
        return list(self._calls)

    def modules(self):
        """The user's modules."""
        return [module for module in list(sys.modules.values())
                if type(module) is types.ModuleType and self.is_users_file(getattr(module, "__file__", None) or "")]

    def report(self):
        """The functions, interpreted ones first."""
        compiled = dict.fromkeys(self._compiled())
        found = [self._describe(code, "numba" if code in compiled else "python") for code in {**self._calls, **compiled}]
        return sorted(found, key=lambda function: (function["tier"] == "numba", -function["calls"]))

    def _compiled(self):
        """The code objects of functions that numba has compiled, at anyone's request."""
        dispatcher = sys.modules.get("numba.core.dispatcher")
        if dispatcher is not None:
            for module in self.modules():
                for value in list(vars(module).values()):
                    if issubclass(type(value), dispatcher.Dispatcher) and value.signatures and self.is_users(value.py_func.__code__):
                        yield value.py_func.__code__

    def _describe(self, code, tier):
        return {"name": getattr(code, "co_qualname", code.co_name), "file": code.co_filename[len(self._directory):],
                "line": code.co_firstlineno, "tier": tier, "calls": self._calls.get(code, 0)}
