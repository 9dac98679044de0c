"""A function instance: the state of the process, and the loop that serves its calls."""

import os
import sys
from contextlib import closing
from contextvars import copy_context
from posix import getpid

from . import hooks, stdio
from .context import Context
from .entry import Entry
from .environment import CallEnvironment, set_initial
from .exits import EXIT_FAILED, EXIT_PROTOCOL, run_exit_handlers
from .frame import (ACK, BODY, END, ERROR, FIN, FREEZE, HEADER, HELLO, INIT, INVOKE, MAX_PAYLOAD, READY, RESTORE,
                    RESULT, U32, BodyError, ProtocolError, failure, parse_object, split_head)
from .link import Link, PeerGone
from .load import describe_failure, load, text_of
from .request import parameters
from .response import NO_HEAD, ResultError, as_response, head_bytes, is_stream, to_bytes, to_json

_ACK_EVERY = 256 * 1024


class Instance:
    """Sends HELLO, waits for INIT, loads the code, and then serves calls one after the other.

    With a `zygote`, the process can be frozen and the loop goes on in each of its clones. A string in its place says why it cannot
    be.
    """

    def __init__(self, fd, zygote=None):
        self.link = Link(fd)
        self.own()
        self.zygote = None if isinstance(zygote, str) else zygote
        self._snapshot = {} if zygote is None else {"snapshot": zygote if self.zygote is None else True}
        self._is_clone = self._once = False
        self.init = None
        self.entry = None
        self._concurrency = 1
        self.environment = CallEnvironment()

    def own(self):
        """Makes this process the one that answers; a child forked by user code has another pid."""
        self._pid = getpid()

    def run(self):
        """Serves until the link ends; does not return."""
        stdio.prepare()
        try:
            self.link.send_json(HELLO, 0, {**self.identity(), **self._snapshot})
            self._load()
            if self._concurrency > 1:
                from .side_by_side import serve

                serve(self)
            while True:
                self.serve_one()
        except PeerGone:
            self._exit(0)
        except ProtocolError as error:
            stdio.print_line(f"flint: protocol error: {error}")
            self._fail_quietly(0, "protocol", str(error))
            self._exit(EXIT_PROTOCOL)
        except BaseException as error:  # raised between two calls, by a signal handler for instance
            stdio.print_error(error)
            self._fail_quietly(0, "developer", f"An error has occurred outside of the handler: {describe_failure(error)}")
            self._exit(_exit_status(error))

    @staticmethod
    def identity():
        return {"protocol": 1, "runtime": "python", "version": sys.version.split()[0]}

    def _load(self):
        kind, _, _, payload = self.link.receive()
        if kind != INIT:
            raise ProtocolError("order", f"a frame of kind {kind} came before INIT")
        self.init = parse_object(payload)
        set_initial(self.init)
        self.environment.settle()
        self._concurrency = self.init.get("concurrency", 1)
        if self._concurrency > 1:
            from .side_by_side import tell_output_apart

            tell_output_apart()
        if self.zygote is not None:
            self.zygote.prepare()
        try:
            self.entry = Entry(load(self.init.get("code"), self.init.get("main") or "main"))
            if self.zygote is None:
                hooks.run_after_restore(self.entry.finish)  # there will be no clones: this process serves the calls
        except BaseException as error:
            stdio.print_error(error)
            stdio.flush()
            self._fail_quietly(0, "developer", f"Initialization has failed due to: {describe_failure(error)}")
            self._exit(EXIT_FAILED)
        if self._concurrency > 1:
            from .side_by_side import SideEntry

            self.entry = SideEntry(self.entry)
        self.link.send_json(READY, 0, {})

    # --- receiving a call

    def serve_one(self):
        """Receives the next call, runs it and answers."""
        kind, fin, call, payload = self.link.receive()
        if kind == INVOKE:
            if call == 0:
                raise ProtocolError("order", "call 0 is the instance itself")
            head, body = split_head(payload)
            if not fin:
                body = self._receive_body(call, body)
                if body is None:
                    return  # the caller went away before the request was complete
            head = head or {}
            if self.zygote is not None and head.get("warmup"):
                self.zygote.keep(head, body)
            copy_context().run(self.answer_call, call, head, body)  # what it sets in context variables ends with it
            if self._once:
                os.sched_yield()  # the receiver of the answer may need this very CPU, and exiting takes long
                self._exit(0)
        elif kind == FREEZE and call == 0 and self.zygote is not None:
            self.zygote.freeze(self, payload)
            self._restore()  # from here on, this process is a clone
        elif kind == INIT:
            raise ProtocolError("order", "Cannot initialize the action more than once.")
        elif kind not in (ACK, ERROR):  # may have crossed with the end of a call
            raise ProtocolError("order", f"a frame of kind {kind} does not begin a call")

    def _restore(self):
        kind, _, call, payload = self.link.receive()
        if kind != RESTORE or call != 0:
            raise ProtocolError("order", f"a frame of kind {kind} came before RESTORE")
        zygote, self.zygote, self._is_clone = self.zygote, None, True
        self._once = zygote.restore(self, payload)
        try:
            hooks.run_after_restore(self.entry.finish)
        except PeerGone:
            raise
        except BaseException as error:
            stdio.print_error(error)
            stdio.flush()
            self._fail_quietly(0, "developer", f"An after_restore hook has failed: {describe_failure(error)}")
            self._exit(EXIT_FAILED)
        stdio.flush()
        self.link.hold(ACK, 0)

    def _receive_body(self, call, first):
        pieces, unreported = [first], len(first)
        while True:
            if unreported >= _ACK_EVERY:
                self.link.send(ACK, call, U32.pack(unreported))
                unreported = 0
            kind, fin, of, payload = self.link.receive()
            if kind == ERROR:
                if of == call:
                    return None
                continue
            if kind == ACK:
                continue
            if of != call or kind not in (BODY, END):
                raise ProtocolError("order", f"a frame of kind {kind} for call {of} is not part of the body of call {call}")
            pieces.append(payload)
            unreported += len(payload)
            if fin or kind == END:
                return b"".join(pieces)

    # --- running it

    def answer_call(self, call, head, body):
        try:
            params = parameters(head, body)
        except BodyError as error:
            return self._fail(call, str(error))
        self.environment.apply(head)
        context = Context(self.init, head)
        try:
            result = self.entry.call(params, context)
            if getpid() != self._pid:
                self._end_fork(None)
        except PeerGone:
            raise
        except BaseException as error:
            if not _is_of_call(error):
                self._end_by(call, error)
                return
            if getpid() != self._pid:
                self._end_fork(error)
            stdio.print_error(error)
            result = {"error": text_of(error)}
        try:
            response = None if type(result) is dict else as_response(result)
            if response is None:
                self._answer_json(call, to_json(result))
            else:
                self._answer(call, response)
        except ResultError as error:
            self._fail(call, str(error))
        except (PeerGone, ProtocolError):
            raise
        except BaseException as error:  # raised by a generator, after RESULT
            if not _is_of_call(error):
                self._end_by(call, error)
                return
            if getpid() != self._pid:
                self._end_fork(error)
            stdio.print_error(error)
            self._fail(call, f"An error has occurred: {type(error).__name__}: {text_of(error)}")

    def _end_fork(self, error):
        """Ends a child process forked by user code that returns from the call, or from a piece of its stream, as Python would: only its
        parent may answer."""
        if isinstance(error, SystemExit):
            if not isinstance(error.code, (int, type(None))):
                stdio.print_line(text_of(error))
        elif error is not None:
            stdio.print_error(error)
        self._exit(0 if error is None else _exit_status(error))

    def _end_by(self, call, error):
        """SystemExit and the like end the process, after the call has been answered."""
        if getpid() != self._pid:
            self._end_fork(error)
        if not isinstance(error, SystemExit):
            stdio.print_error(error)
        elif self._is_clone:
            run_exit_handlers()
        status = error.code if isinstance(error, SystemExit) else None
        self._fail(call, f"The action exited ({type(error).__name__}{'' if status is None else f': {status}'}).")
        self._exit(_exit_status(error))

    def rehearse(self, head, body):
        """Runs a call as `answer_call` does, without answering it. Returns its result; for a stream, the pieces."""
        return copy_context().run(self._rehearse, head, body)

    def _rehearse(self, head, body):
        self.environment.apply(head)
        try:
            result = self.entry.call(parameters(head, body), Context(self.init, head))
            if getpid() != self._pid:
                self._end_fork(None)
            response = None if type(result) is dict else as_response(result)
            if response is None:
                to_json(result)
            elif is_stream(response.body):
                with closing(self.entry.iterate(response.body)) as pieces:
                    return [response.head_fields(), list(self._as_sent(pieces))]
            return result
        except BaseException as error:
            if getpid() != self._pid:
                self._end_fork(error)
            if _is_of_call(error):
                return error
            raise

    # --- answering

    def _answer_json(self, call, body):
        stdio.flush()
        length = len(body) + 4
        if length <= MAX_PAYLOAD:
            self.link.write(HEADER.pack(length, RESULT, FIN, 0, call) + NO_HEAD + body)
        else:
            self._send_stream(call, NO_HEAD, (body,))

    def _answer(self, call, response):
        head = head_bytes(response.head_fields())
        body = response.body
        stdio.flush()
        if is_stream(body):
            pieces = self.entry.iterate(body)
            try:
                self.link.send_stream(call, head, self._as_sent(pieces))
            finally:  # what the stream prints while it is closed belongs to the call
                pieces.close()
                close = getattr(body, "close", None)
                if close is not None:
                    close()
            self._end_stream(call)
            return
        body = to_bytes(body)
        if len(head) + len(body) <= MAX_PAYLOAD:
            self.link.send(RESULT, call, head + body, fin=True)
        else:
            self._send_stream(call, head, (body,))

    def _as_sent(self, pieces):
        for piece in pieces:
            if getpid() != self._pid:
                self._end_fork(None)
            yield to_bytes(piece)
        if getpid() != self._pid:
            self._end_fork(None)

    def _send_stream(self, call, head, pieces):
        self.link.send_stream(call, head, pieces)
        self._end_stream(call)

    def _end_stream(self, call):
        stdio.flush()
        self.link.send(END, call)

    def _fail(self, call, message):
        stdio.flush()
        self.link.send_json(ERROR, call, failure("developer", message))

    def _fail_quietly(self, call, kind, message):
        """Reports an error that ends the process to Flint, which may be gone already."""
        try:
            self.link.send_json(ERROR, call, failure(kind, message))
        except PeerGone:
            pass

    def _exit(self, status):
        """Exits at once, without waiting for user code's threads or exit handlers."""
        stdio.flush()
        os._exit(status & 0xFF)


def _is_of_call(error):
    """Whether it only fails the call in which it was raised, rather than ending the process: also if the call awaited what was cancelled."""
    cancelled = getattr(sys.modules.get("asyncio"), "CancelledError", ())
    return isinstance(error, Exception) or isinstance(error, cancelled)


def _exit_status(error):
    """The exit status with which Python ends when nobody catches the exception."""
    if not isinstance(error, SystemExit):
        return EXIT_FAILED
    return error.code if isinstance(error.code, int) else 0 if error.code is None else EXIT_FAILED
