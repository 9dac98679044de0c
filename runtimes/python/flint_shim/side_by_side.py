"""Runs calls concurrently: each in a thread (threads.py), coroutines on one event loop, and each call's output sent as its own LOG lines.

A context variable holds the current call: coroutines and tasks inherit it, and so do threads started by a call and work submitted to
a thread pool.
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
from .threads import Threads
from . import stdio

_ACK_EVERY = 256 * 1024
_CURRENT = contextvars.ContextVar("flint_call", default=None)
_LONGEST_LINE = MAX_PAYLOAD // 2


class _Sending(threading.local):
    """Whether this thread is sending a line or a frame."""

    now = False

    def __enter__(self):
        self.now = True

    def __exit__(self, *_):
        self.now = False


_SENDING = _Sending()


class _Output:
    """Replaces stdout or stderr: the output of a call goes to the call, all other output to the real stream."""

    def __init__(self, real, stream, buffer=None):
        self._real, self._stream, self.buffer = real, stream, buffer

    def write(self, data):
        call = _CURRENT.get()
        # A finalizer may print at any moment, even while its thread holds the locks: such output bypasses the call, which would deadlock.
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
    """Installed before user code is loaded, which may keep a reference to the `sys.stdout` that it finds."""
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
    """Runs in a forked child, as `multiprocessing` makes them. The link is not the child's, and the thread that held one of the link's
    locks does not exist there to release it."""
    global _CURRENT
    _CURRENT = contextvars.ContextVar("flint_call", default=None)


def _follow_into_pools():
    """Attributes the work of a thread pool to the call that submitted it, or to none; the threads themselves belong to no call."""
    Executor, Pool = concurrent.futures.thread.ThreadPoolExecutor, multiprocessing.pool.ThreadPool
    submit = Executor.submit

    def submit_in_context(executor, function, /, *arguments, **keywords):
        interpreters = sys.modules.get("concurrent.futures.interpreter")
        if interpreters is None or not isinstance(executor, interpreters.InterpreterPoolExecutor):  # its work runs in another interpreter
            function = _in_this_context(function)
        # Submitted in an empty context: a thread that is started for it may later work for other calls.
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
    # A context can be entered only once at a time, and the function may run for many items concurrently.
    return lambda *arguments, **keywords: context.copy().run(function, *arguments, **keywords)


class SideEntry(Entry):
    """A function whose coroutines all run on one event loop, in a dedicated thread."""

    def __init__(self, entry):
        self.function, self._arguments = entry.function, entry._arguments
        self.loop = entry._event_loop()
        threading.Thread(target=self._run, daemon=True, name="flint-loop").start()

    def _run(self):
        try:
            self.loop.run_forever()
        finally:  # user code stopped the loop: no coroutine would complete any more
            stdio.flush()
            os._exit(EXIT_FAILED)

    def finish(self, awaitable):
        result, error = asyncio.run_coroutine_threadsafe(_caught(awaitable), self.loop).result()
        if error is not None:
            raise error
        return result


async def _caught(awaitable):
    """SystemExit and KeyboardInterrupt would end the loop, and the thread that waits for the result would block for ever."""
    try:
        return await awaitable, None
    except (SystemExit, KeyboardInterrupt) as error:
        return None, error


class _Call:
    """One call: its request as it arrives, its output, and the link as seen by the code that serves it."""

    def __init__(self, number, link, lock):
        self.number = number
        self.pieces, self.unreported = [], 0
        self._link, self._lock = link, lock
        self._lines = threading.Lock()
        self._unfinished = {1: [], 2: []}
        self._length = {1: 0, 2: 0}
        self._window = threading.Condition()
        self._unacknowledged = 0
        self._cancelled = self._streams = self._over = False

    # --- what it prints

    def print(self, stream, data):
        with _SENDING, self._lines:
            pieces = self._unfinished[stream]
            pieces.append(data)
            self._length[stream] += len(data)
            if b"\n" in data or self._length[stream] > _LONGEST_LINE:
                *complete, rest = b"".join(pieces).split(b"\n")
                if len(rest) > _LONGEST_LINE:  # it is split anyway
                    complete.append(rest)
                    rest = b""
                self._unfinished[stream] = [rest] if rest else []
                self._length[stream] = len(rest)
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
            for stream, pieces in self._unfinished.items():
                if pieces:
                    self._unfinished[stream], self._length[stream] = [], 0
                    self._send_lines(stream, [b"".join(pieces)])

    # --- the link

    def write(self, data):
        """Sends frames of this call; output precedes the last frame, and nothing follows it."""
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
    """The instance as one call sees it, with the call in place of the link."""

    def __init__(self, instance, call):
        self.link = call
        self.zygote, self._is_clone, self._once = None, False, False
        self._pid = instance._pid
        self.init, self.entry, self.environment = instance.init, instance.entry, instance.environment


def serve(instance):
    """Receives calls and starts them; does not return."""
    link, lock, calls, threads = instance.link, threading.Lock(), {}, Threads()

    def run(call, head, body):
        _CURRENT.set(call)
        try:
            _Running(instance, call).answer_call(call.number, head, body)
        except PeerGone:
            os._exit(0)
        except ProtocolError as error:
            stdio.print_line(f"flint: protocol error: {error}")
            os._exit(EXIT_PROTOCOL)
        except Exception as error:  # for want of memory, for instance
            call.send_json(ERROR, call.number, failure("developer", f"An error has occurred: {type(error).__name__}"))
        finally:
            calls.pop(call.number, None)

    def start(call, head, body):
        call.pieces = None
        try:
            threads.run(functools.partial(contextvars.Context().run, run, call, head, body))
        except RuntimeError as error:  # the sandbox's limit of threads is reached
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
