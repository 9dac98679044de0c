"""Calls that run side by side: a thread each, coroutines on one event loop, and what each prints sent as its own lines (LOG).

Which call some code belongs to is a context variable: coroutines and tasks inherit it, and so do threads that a call starts and what it gives to
the threads of a pool.
"""

import asyncio
import concurrent.futures.thread
import contextvars
import functools
import multiprocessing.pool
import os
import sys
import threading

from .entry import Entry
from .exits import EXIT_FAILED, EXIT_PROTOCOL
from .frame import (ACK, BODY, END, ERROR, FIN, INIT, INVOKE, LOG, MAX_PAYLOAD, RESULT, U32, ProtocolError, encode, failure, split_head)
from .instance import Instance
from .link import PIECE, WINDOW, PeerGone
from . import stdio

_ACK_EVERY = 256 * 1024
_CURRENT = contextvars.ContextVar("flint_call", default=None)
_LONGEST_LINE = MAX_PAYLOAD // 2


class _Sending(threading.local):
    """Whether this thread is in the middle of a line or a frame."""

    now = False

    def __enter__(self):
        self.now = True

    def __exit__(self, *_):
        self.now = False


_SENDING = _Sending()


class _Output:
    """Stands for stdout or stderr: what a call writes goes to the call, anything else to the real one."""

    def __init__(self, real, stream, buffer=None):
        self._real, self._stream, self.buffer = real, stream, buffer

    def write(self, data):
        call = _CURRENT.get()
        # A finalizer may print at any moment, also while its thread holds the locks: that goes out as output of nobody's.
        if call is None or _SENDING.now:
            return self._real.write(data)
        call.print(self._stream, data.encode("utf-8", "replace") if isinstance(data, str) else bytes(memoryview(data)))
        return len(data)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def flush(self):
        self._real.flush()

    def __getattr__(self, name):
        return getattr(self._real, name)


def tell_output_apart():
    """Before user code is loaded: it may keep what it finds as `sys.stdout`."""
    for name, stream in (("stdout", 1), ("stderr", 2)):
        real = getattr(sys, name)
        output = _Output(real, stream, _Output(real.buffer, stream))
        setattr(sys, name, output)
        setattr(sys, f"__{name}__", output)
    start = threading.Thread.start

    def start_in_context(thread):
        if _CURRENT.get() is not None:
            context, run = contextvars.copy_context(), thread.run
            thread.run = lambda: context.run(run)
        start(thread)

    threading.Thread.start = start_in_context
    _follow_into_pools()
    os.register_at_fork(after_in_child=_belong_to_nobody)


def _belong_to_nobody():
    """In a copy of the process, as `multiprocessing` makes them: the link is not its own, and who held the link's locks is not there to let go of them."""
    global _CURRENT
    _CURRENT = contextvars.ContextVar("flint_call", default=None)


def _follow_into_pools():
    """The threads of a pool belong to nobody; what they do belongs to whoever gave it to them, in a call or outside of any."""
    Executor, Pool = concurrent.futures.thread.ThreadPoolExecutor, multiprocessing.pool.ThreadPool
    submit = Executor.submit

    def submit_in_context(executor, function, /, *arguments, **keywords):
        interpreters = sys.modules.get("concurrent.futures.interpreter")
        if interpreters is None or not isinstance(executor, interpreters.InterpreterPoolExecutor):  # that takes nothing of this interpreter's
            function = _in_this_context(function)
        # A thread that is started for it may do other calls' work later.
        return contextvars.Context().run(submit, executor, function, *arguments, **keywords)

    Executor.submit = submit_in_context
    for name in ("apply_async", "_map_async", "imap", "imap_unordered"):
        setattr(Pool, name, _giving_in_context(getattr(Pool, name)))


def _giving_in_context(method):
    def give(pool, function, *arguments, **keywords):
        return method(pool, _in_this_context(function), *arguments, **keywords)

    return functools.wraps(method)(give)


def _in_this_context(function):
    context = contextvars.copy_context()
    # A context is entered once at a time, and the function may be called for many things at once.
    return lambda *arguments, **keywords: context.copy().run(function, *arguments, **keywords)


class SideEntry(Entry):
    """A function whose coroutines all run on one event loop, in a thread of its own."""

    def __init__(self, entry):
        self.function, self._arguments = entry.function, entry._arguments
        self.loop = entry._event_loop()
        threading.Thread(target=self._run, daemon=True, name="flint-loop").start()

    def _run(self):
        try:
            self.loop.run_forever()
        finally:  # something of the function's has ended it, and no coroutine would ever be done again
            stdio.flush()
            os._exit(EXIT_FAILED)

    def finish(self, awaitable):
        result, error = asyncio.run_coroutine_threadsafe(_caught(awaitable), self.loop).result()
        if error is not None:
            raise error
        return result


async def _caught(awaitable):
    """SystemExit and its like would end the loop, and who waits for the result would wait for ever."""
    try:
        return await awaitable, None
    except (SystemExit, KeyboardInterrupt) as error:
        return None, error


class _Call:
    """One call: its request as it comes, its output, and the link as its code sees it."""

    def __init__(self, number, link, lock):
        self.number = number
        self.pieces, self.unreported = [], 0
        self._link, self._lock = link, lock
        self._lines = threading.Lock()
        self._unfinished = {1: b"", 2: b""}
        self._window = threading.Condition()
        self._unacknowledged = 0
        self._cancelled = self._streams = self._over = False

    # --- what it prints

    def print(self, stream, data):
        with _SENDING, self._lines:
            *complete, self._unfinished[stream] = (self._unfinished[stream] + data).split(b"\n")
            self._send_lines(stream, complete)

    def _send_lines(self, stream, lines):
        frames = [encode(LOG, self.number, bytes((stream,)) + line[at:at + _LONGEST_LINE])
                  for line in lines for at in range(0, max(len(line), 1), _LONGEST_LINE)]
        if frames:
            with self._lock:
                if not self._over:
                    self._link.write(b"".join(frames))

    def _send_unfinished(self):
        with self._lines:
            for stream, line in self._unfinished.items():
                if line:
                    self._unfinished[stream] = b""
                    self._send_lines(stream, [line])

    # --- the link

    def write(self, data):
        """Frames of this call; what it has printed goes before its last one, and nothing after that."""
        kind, flags = data[4], data[5]
        last = kind in (END, ERROR) or (kind == RESULT and flags & FIN)
        with _SENDING:
            if last:
                self._send_unfinished()
            with self._lock:
                if not self._over:
                    self._over = last
                    self._link.write(data)

    def send(self, kind, call, payload=b"", fin=False):
        self.write(encode(kind, call, payload, fin))

    def send_json(self, kind, call, value):
        import json

        self.send(kind, call, json.dumps(value).encode())

    def send_stream(self, call, head, pieces):
        self.send(RESULT, call, head)
        self._streams = True
        if self._cancelled:
            return
        for piece in pieces:
            view = memoryview(piece)
            for at in range(0, len(view), PIECE):
                part = bytes(view[at:at + PIECE])
                with self._window:
                    self._window.wait_for(lambda: self._cancelled or self._unacknowledged + len(part) <= WINDOW)
                    if self._cancelled:
                        return
                    self._unacknowledged += len(part)
                self.send(BODY, call, part)

    def acknowledged(self, count):
        with self._window:
            self._unacknowledged -= count
            self._window.notify_all()

    def cancel(self):
        with self._window:
            self._cancelled = True
            self._window.notify_all()
        if self._streams:  # its next piece may be long in coming
            self.send(END, self.number)


class _Running(Instance):
    """The instance as one call sees it: with the call in the place of the link."""

    def __init__(self, instance, call):
        self.link = call
        self.zygote, self._is_clone, self._once = None, False, False
        self._pid = instance._pid
        self.init, self.entry, self.environment = instance.init, instance.entry, instance.environment


def serve(instance):
    """Receives calls and starts them; does not return."""
    link, lock, calls = instance.link, threading.Lock(), {}

    def run(call, head, body):
        _CURRENT.set(call)
        try:
            _Running(instance, call).answer_call(call.number, head, body)
        except PeerGone:
            os._exit(0)
        except ProtocolError as error:
            stdio.print_line(f"flint: protocol error: {error}")
            os._exit(EXIT_PROTOCOL)
        finally:
            calls.pop(call.number, None)

    def start(call, head, body):
        call.pieces = None
        work = contextvars.Context().run
        try:
            threading.Thread(target=work, args=(run, call, head, body), daemon=True).start()
        except RuntimeError as error:  # there are as many as the sandbox may have
            del calls[call.number]
            call.send_json(ERROR, call.number, failure("developer", f"The call could not begin: {error}"))

    while True:
        kind, fin, number, payload = link.receive()
        call = calls.get(number)
        if kind == INVOKE:
            if number == 0 or call is not None:
                raise ProtocolError("order", f"INVOKE for call {number}, which is not a new call")
            head, body = split_head(payload)
            call = calls[number] = _Call(number, link, lock)
            call.head = head or {}
            if fin:
                start(call, call.head, body)
            else:
                call.pieces.append(bytes(body))
                call.unreported += len(body)
        elif kind in (BODY, END):
            if call is None or call.pieces is None:
                raise ProtocolError("order", f"a frame of kind {kind} for call {number}, which has no open body")
            call.pieces.append(bytes(payload))
            call.unreported += len(payload)
            if fin or kind == END:
                start(call, call.head, b"".join(call.pieces))
            elif call.unreported >= _ACK_EVERY:
                with lock:
                    link.send(ACK, number, U32.pack(call.unreported))
                call.unreported = 0
        elif kind == ACK:
            if call is not None and len(payload) == 4:
                call.acknowledged(U32.unpack(payload)[0])
        elif kind == ERROR:
            if call is not None and call.pieces is not None:
                del calls[number]
            elif call is not None:
                call.cancel()
        elif kind == INIT:
            raise ProtocolError("order", "Cannot initialize the action more than once.")
        else:
            raise ProtocolError("order", f"a frame of kind {kind} does not belong to a call")
