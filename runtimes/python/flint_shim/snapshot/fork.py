"""Forking without running user code: handlers that user code has given to `os.register_at_fork` wait for the restore."""

import os
import posix
import sys

from .. import stdio


class Fork:
    def __init__(self):
        self._cloning = False
        self._in_child = []
        os.register_at_fork = self._register

    def fork(self):
        """os.fork; handlers registered since the start do not run."""
        self._cloning = True
        pid = posix.fork()
        self._cloning = False
        return pid

    def rehearse(self):
        """In a zygote, which has one thread: what `threading` does in each clone."""
        threading = sys.modules.get("threading")
        for handler in self._in_child:
            if threading is not None and handler is threading._after_fork:
                threading.main_thread()._set_native_id()
                handler()

    def run_handlers(self, replaced):
        """In a clone: what should have run in the child, but for what is `replaced`."""
        os.register_at_fork = posix.register_at_fork
        threading = sys.modules.get("threading")
        if threading is not None:
            threading.main_thread()._set_native_id()
        for handler in self._in_child:
            if replaced(handler):
                continue
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
            return handler  # for the real function to refuse

        def run():
            if not self._cloning:
                handler()

        return run
