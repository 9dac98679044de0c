"""The life cycle of a zygote: warm-up, freeze, clones."""

import _signal
import gc
import json
import os
import posix

from .. import hooks, stdio
from ..environment import ONE_THREAD, set_all
from ..exits import EXIT_CLONE
from ..frame import ACK, ERROR, HELLO, ProtocolError, encode, failure, parse_object
from ..link import PeerGone
from ..load import text_of
from . import event_loop, immortal, memory, native, tmp, warmup
from .checks import obstacles
from .clones import CloneRequests
from .descriptors import TMP, Descriptors
from .left_in_tmp import LeftInTmp
from .prime import prime
from .refusal import Refused, answer_refusal
from .subprocesses import keep_tmp
from .uniqueness import Uniqueness


# The code path of a new clone is rehearsed this often at the freeze: CPython 3.11 specialises code after eight calls of a function.
_REHEARSALS = 16


class Zygote:
    def __init__(self, link, fork):
        lacking = native.missing()
        if lacking is not None:
            raise Refused(lacking)
        native.hide()
        native.close_all_but((0, 1, 2, link, TMP))  # what the parent process left open
        self._requests, self._left = [], LeftInTmp()
        self._fork, self._uniqueness, self._descriptors = fork, Uniqueness(), Descriptors(link)
        self._native_serve = native.helper()
        keep_tmp()
        tmp.install()

    def prepare(self):
        """Before user code is loaded, after the function's variables have been set."""
        for name in ONE_THREAD:
            os.environ.setdefault(name, "1")
        os.environ.setdefault("NUMBA_CACHE_DIR", "/tmp/numba")  # numba would write beside the code, which is read-only

    def keep(self, head, body):
        """Keeps a warm-up request, which the freeze replays."""
        self._left.look()
        self._requests.append((head, body))

    # --- the freeze

    def freeze(self, instance, payload):
        """Freezes the process and answers; then serves CLONE until the link ends. Returns only in a clone."""
        options = parse_object(payload)
        try:
            report = self._freeze(instance, options)
        except Refused as refusal:
            answer_refusal(instance, str(refusal))
        except Exception as error:
            stdio.print_error(error)
            answer_refusal(instance, f"the process could not be frozen: {type(error).__name__}: {text_of(error)}")
        if instance.link.has_unread():
            raise ProtocolError("order", "a frame came before the answer to FREEZE")
        answer = encode(ACK, 0, json.dumps(report).encode())
        if self._native_serve is None or self._descriptors.are_more():
            instance.link.write(answer)
            self._serve(instance)
        else:
            self._serve_natively(instance, answer)

    def _freeze(self, instance, options):
        report = warmup.run(instance, self._requests, options)
        self._run_hooks(instance)
        self._requests = []
        instance.environment.apply({})
        stdio.flush()
        found = event_loop.suspend(instance.entry)
        gc.collect()
        self._uniqueness.prepare()
        found += event_loop.others(instance.entry) + obstacles() + self._descriptors.obstacles()
        if found:
            raise Refused("; ".join(found))
        self._left.take()
        # No user code runs from here on.
        self._descriptors.seal()
        self._fork.prepare(self._uniqueness.replaces)
        for _ in range(_REHEARSALS):
            prime(instance, self.restore)
        gc.collect()
        self._collects = gc.isenabled()
        gc.disable()
        immortal.immortalise()
        gc.freeze()
        report["hugePageBytes"] = memory.use_huge_pages() if options.get("hugePages", True) else 0
        report["rssBytes"] = memory.resident()
        self._hello = json.dumps({**instance.identity(), "clone": 0}).encode().removesuffix(b"0}")
        return report

    @staticmethod
    def _run_hooks(instance):
        try:
            hooks.run_before_snapshot(instance.entry.finish)
        except PeerGone:
            raise
        except BaseException as error:
            stdio.print_error(error)
            raise Refused(f"a before_snapshot hook failed: {type(error).__name__}: {text_of(error)}") from None

    # --- clones

    def _serve_natively(self, instance, answer):
        flags = self._native_serve(instance.link.fd, answer, len(answer), self._hello, len(self._hello))
        self._descriptors.placed = True
        self._begin(instance, flags, self._collect_again)

    def _serve(self, instance):
        """Serves CLONE without the native helper, which cannot reopen files for a clone."""
        self._handler_of_sigchld = _signal.getsignal(_signal.SIGCHLD)
        _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)
        stdio.flush()
        requests = CloneRequests(instance.link)
        while True:
            call, flags, descriptors = requests.next()
            try:
                pid = self._fork.fork()
            except OSError as error:
                instance.link.send_json(ERROR, call, failure("snapshot", f"fork failed: {error.strerror}"))
                pid = -1
            if pid == 0:
                requests.forget()
                self._begin(instance, flags, lambda: self._settle(instance, call, descriptors))
                return
            for fd in descriptors:
                posix.close(fd)

    def _begin(self, instance, flags, settle):
        """In a clone: everything that precedes RESTORE. An error here must not reach the zygote's code further up the stack."""
        try:
            instance.own()
            settle()
            self._left.put()
            if flags & 1:
                prime(instance, self.restore)
        except PeerGone:
            posix._exit(0)
        except BaseException as error:
            stdio.print_error(error)
            stdio.flush()
            if self._descriptors.placed:
                instance.link.send_json(ERROR, 0, failure("snapshot", f"the copy could not be made: {error}"))
            posix._exit(EXIT_CLONE)

    def _settle(self, instance, call, descriptors):
        self._descriptors.place(descriptors)
        _signal.signal(_signal.SIGCHLD, self._handler_of_sigchld or _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
        native.confine()
        self._collect_again()
        instance.link.send(HELLO, 0, self._hello + b"%d}" % call)

    def _collect_again(self):
        if self._collects:
            gc.enable()

    def restore(self, instance, payload, rehearsed=False):
        """In a clone: makes its state distinct from its siblings'; user code's hooks run later. Returns whether it serves a single call.

        With `rehearsed`, user code's fork handlers do not run.
        """
        order = self._make_unique(payload)
        if order.get("env"):
            instance.environment.settle()
        self._fork.run(() if rehearsed else self._fork.handlers)
        event_loop.resume(instance.entry)
        return order.get("once") is True

    def _make_unique(self, payload):
        order = parse_object(payload)
        entropy = order.get("entropy")
        if not isinstance(entropy, str) or len(entropy) != 64 or set(entropy) - set("0123456789abcdefABCDEF"):
            raise ProtocolError("json", "the entropy of RESTORE is not 64 hexadecimal digits")
        self._uniqueness.restore(bytes.fromhex(entropy))
        set_all(order.get("env"))
        return order
