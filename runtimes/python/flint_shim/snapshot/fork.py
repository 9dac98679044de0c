"""Forks without running user code: handlers that it passed to `os.register_at_fork` are deferred until the restore."""

import os
import posix
import sys

from .. import stdio


class Fork:
    def __init__(self):
        self._cloning = False
        self._in_child = []
        self.handlers = []
        os.register_at_fork = self._register

    def fork(self):
        """Forks without running the handlers registered since the start."""
        self._cloning = True
        pid = posix.fork()
        self._cloning = False
        return pid

    def prepare(self, replaced):
        """At the freeze, when the zygote has one thread, as its clones will have: runs `threading`'s own fork handler once for all
        clones, and drops it and the handlers that are `replaced`."""
        os.register_at_fork = posix.register_at_fork
        threading = sys.modules.get("threading")
        own = getattr(threading, "_after_fork", None)
        if any(handler is own for handler in self._in_child):
            threading.main_thread()._set_native_id()
            own()
        self.handlers = [handler for handler in self._in_child if handler is not own and not replaced(handler)]

    @staticmethod
    def run(handlers):
        """In a clone: runs the deferred handlers."""
        threading = sys.modules.get("threading")
        if threading is not None:
            threading.main_thread()._set_native_id()
        for handler in handlers:
            try:
                handler()
            except Exception as error:
                stdio.print_error(error)

    def _register(self, *, before=None, after_in_child=None, after_in_parent=None):
        handlers = {"before": before, "after_in_child": after_in_child, "after_in_parent": after_in_parent}
        posix.register_at_fork(**{name: self._unless_cloning(handler) for name, handler in handlers.items() if handler is not None})
        if after_in_child is not None:
            self._in_child.append(after_in_child)

    def _unless_cloning(self, handler):
        if not callable(handler):
            return handler  # the real function rejects it

        def run():
            if not self._cloning:
                handler()

        return run
