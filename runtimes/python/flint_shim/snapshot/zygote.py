"""The life of a zygote: warm-up, freeze, clones."""

import _signal
import gc
import os
import time

from .. import hooks, stdio
from ..environment import ONE_THREAD
from ..exits import EXIT_FAILED
from ..frame import ACK, ERROR, ProtocolError, parse_object
from ..link import PeerGone
from .prime import prime

_UNAVAILABLE = "the snapshot helper did not start: "


class Refused(Exception):
    """The process cannot be copied; the message says what is in the way, and what to do."""


class Zygote:
    """`unavailable`: why this process cannot be copied, None when it can."""

    def __init__(self, link):
        self.requests = []
        self._children_signal = _signal.SIG_DFL
        try:
            from . import native
            from .descriptors import TMP
            self.unavailable = native.missing()
            if self.unavailable is None:
                native.hide()
                native.close_all_but((0, 1, 2, link, TMP))  # what a careless parent has left open
                from .fork import Fork
                from .subprocesses import keep_tmp
                from .uniqueness import Uniqueness
                self._native, self._fork, self._uniqueness = native, Fork(), Uniqueness()
                keep_tmp()
        except ImportError as error:
            self.unavailable = f"{_UNAVAILABLE}this Python has no ctypes ({error})"
        except OSError as error:
            self.unavailable = f"{_UNAVAILABLE}{error}"

    def prepare(self):
        """Before user code is loaded, when the function's variables are set."""
        for name in ONE_THREAD:
            os.environ.setdefault(name, "1")

    def keep(self, head, body):
        """A warm-up request, for the freeze to replay."""
        self.requests.append((head, body))

    # --- the freeze

    def freeze(self, instance, payload):
        """Freezes and answers; serves CLONE until the link ends. Returns in a clone only."""
        options = parse_object(payload)
        try:
            if self.unavailable is not None:
                raise Refused(self.unavailable)
            report = self._freeze(instance, options)
        except Refused as refusal:
            stdio.flush()
            instance.link.send_json(ERROR, 0, {"kind": "snapshot", "message": str(refusal)})
            while True:
                instance.link.receive()  # until the link ends
        if instance.link.has_unread():
            raise ProtocolError("order", "a frame came before the answer to FREEZE")
        instance.link.send_json(ACK, 0, report)
        self._serve(instance)

    def _freeze(self, instance, options):
        from . import loop, memory, warmup
        from .checks import obstacles
        from .descriptors import Descriptors

        notes = []
        report = warmup.replay(instance, self.requests, options, notes)
        self._run_hooks(instance)
        self.requests = []
        instance.environment.apply({})
        stdio.flush()
        found = loop.suspend(instance.entry)
        gc.collect()
        self._uniqueness.prepare()
        self._descriptors = Descriptors(instance.link.fd)
        found += loop.others(instance.entry) + obstacles() + self._descriptors.obstacles()
        if found:
            raise Refused("; ".join(found))
        self._collects = gc.isenabled()
        gc.disable()
        gc.freeze()
        huge = memory.use_huge_pages() if options.get("hugePages", True) else 0
        self._descriptors.seal()
        self._children_signal = _signal.getsignal(_signal.SIGCHLD)
        _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)
        report.update(hugePageBytes=huge, rssBytes=memory.resident(), notes=notes)
        return report

    @staticmethod
    def _run_hooks(instance):
        try:
            hooks.run_before_snapshot(instance.entry.finish)
        except PeerGone:
            raise
        except BaseException as error:
            stdio.print_error(error)
            raise Refused(f"a before_snapshot hook failed: {type(error).__name__}: {error}") from None

    # --- clones

    def _serve(self, instance):
        from .clones import CloneRequests

        requests = CloneRequests(instance.link)
        while True:
            call, flags, descriptors = requests.next()
            try:
                pid = self._fork.fork()
            except OSError as error:
                instance.link.send_json(ERROR, call, {"kind": "snapshot", "message": f"fork failed: {error.strerror}"})
                pid = -1
            if pid == 0:
                requests.forget()
                self._begin(instance, call, flags, descriptors)
                return
            for fd in descriptors:
                os.close(fd)

    def _begin(self, instance, call, flags, descriptors):
        """In a clone: everything before its HELLO. What fails here must not get back to the zygote's code."""
        try:
            self._settle(descriptors)
            if flags & 1:
                prime(instance)
            instance.hello(clone=call)
        except PeerGone:
            os._exit(0)
        except BaseException as error:
            stdio.print_error(error)
            stdio.flush()
            os._exit(EXIT_FAILED)

    def _settle(self, descriptors):
        self._descriptors.place(descriptors)
        _signal.signal(_signal.SIGCHLD, self._children_signal or _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
        self._native.confine()
        if self._collects:
            gc.enable()

    def restore(self, instance, payload):
        """In a clone: makes it unlike its siblings, then runs the hooks of user code."""
        from . import loop

        fields = parse_object(payload)
        try:
            self._uniqueness.restore(bytes.fromhex(fields.get("entropy", "")))
        except ValueError:
            raise ProtocolError("json", "the entropy of RESTORE is not hexadecimal") from None
        self._fork.run_handlers()
        loop.resume(instance.entry)


