"""Calls that run side by side: what each of them prints is its own, wherever it has given the work to."""

import json
import sys
import time
import unittest
from pathlib import Path

from support import ShimTestCase

from peer import with_head

POOLS = """
    import asyncio, concurrent.futures, multiprocessing.pool, threading, sys

    executor = concurrent.futures.ThreadPoolExecutor(max_workers=2)
    pool = None

    def work(n, m=0):
        sys.stdout.write(f"work {n} {m}\\n")  # in one piece: two threads of one call may be at it
        return n

    def main(params):
        global pool
        n, way = params["n"], params["way"]
        if pool is None:
            pool = multiprocessing.pool.ThreadPool(2)  # its threads are started in the first call
        if way == "submit":
            return {"n": executor.submit(work, n, m=1).result()}
        if way == "map":
            return {"n": sum(executor.map(work, [n] * 8)) // 8}
        if way == "nested":
            return {"n": executor.submit(lambda: executor.submit(work, n).result()).result()}
        if way == "to_thread":
            async def in_thread():
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(None, work, n)
                return await loop.run_in_executor(executor, work, n)
            return {"n": asyncio.run(in_thread())}
        if way == "pool":
            assert pool.apply(work, (n,), {"m": 1}) == n
            assert pool.map(work, [n] * 8) == [n] * 8
            assert pool.starmap(work, [(n, 1)] * 4) == [n] * 4
            assert list(pool.imap(work, [n] * 4)) == [n] * 4
            assert list(pool.imap_unordered(work, [n] * 4)) == [n] * 4
            return {"n": pool.apply_async(work, (n,)).get()}
        if way == "timer":
            timer = threading.Timer(0, work, (n,))
            timer.start()
            timer.join()
            return {"n": n}
        if way == "fails":
            try:
                executor.submit(int, "x").result()
            except ValueError as error:
                work(n)
                return {"n": n, "said": str(error)}
"""


class Pools(ShimTestCase):
    def setUp(self):
        self.peer = self.shim()
        self.peer.start(Path(self.directory({"function.py": POOLS}), "function.py"), concurrency=4)
        self.calls = 0

    def call(self, way):
        """A call's number, its result, and the lines that are its own."""
        self.calls += 1
        number = self.calls
        body = json.dumps({"n": number, "way": way}).encode()
        self.peer.send("INVOKE", number, with_head({"activation": "a"}, body), fin=True)
        lines = []
        while True:
            frame = self.peer.receive()
            self.assertEqual(frame.call, number, f"{way}: {frame}")
            if frame.kind == "LOG":
                lines.append(frame.payload[1:].decode())
                continue
            self.assertEqual(frame.kind, "RESULT", frame)
            return number, json.loads(frame.payload[4:]), lines

    def test_what_a_pool_does_belongs_to_the_call_that_gave_it_the_work(self):
        expected = {"submit": 1, "map": 8, "nested": 1, "to_thread": 2, "pool": 22, "timer": 1, "fails": 1}
        for _ in range(3):
            for way, count in expected.items():
                number, result, lines = self.call(way)
                self.assertEqual(result["n"], number, way)
                self.assertEqual(len(lines), count, (way, lines))
                self.assertTrue(all(line.split()[:2] == ["work", str(number)] for line in lines), (way, lines))

    def test_errors_come_back_as_ever(self):
        self.assertEqual(self.call("fails")[1]["said"], "invalid literal for int() with base 10: 'x'")

    @unittest.skipIf(sys.version_info < (3, 14), "interpreters are the standard library's since 3.14")
    def test_other_interpreters_get_what_they_can_take(self):
        source = "import concurrent.futures\ndef main(params):\n    with concurrent.futures.InterpreterPoolExecutor(1) as pool:\n        return {'n': pool.submit(int, '7').result()}\n"
        peer = self.shim()
        peer.start(Path(self.directory({"function.py": source}), "function.py"), concurrency=2)
        self.assertEqual(peer.invoke().json(), {"n": 7})


ENDS = """
    import sys

    async def main(params):
        sys.exit(params["status"])
"""

FINALIZERS = """
    class Connection:
        def __init__(self):
            self.itself = self

        def __del__(self):
            print("unclosed connection")

    def main(params):
        for number in range(4000):
            Connection()
            print("line", number)
        return {"ok": True}
"""

WAITS = """
    import threading

    released = threading.Event()

    def stream():
        yield "first"
        released.wait()
        yield "second"

    def main(params):
        if params.get("wait"):
            return stream()
        released.set()
        return {}
"""

CANNOT_BE_PRINTED = """
    class Refused(Exception):
        def __str__(self):
            return self.code

    def main(params):
        error = Refused()
        error.code = 404
        raise error
"""


COPIES = """
    import multiprocessing, sys

    multiprocessing = multiprocessing.get_context("fork")

    def work(n):
        sys.stdout.write(f"copy {n}\\n")  # in one piece

    def main(params):
        if params["n"] == 0:  # holds on to the lock that its lines are sent under, mostly
            while True:
                print("busy")
        copies = [multiprocessing.Process(target=work, args=(n,)) for n in range(20)]
        for copy in copies:
            copy.start()
        for copy in copies:
            copy.join(60)
        print("done")
        return {"ended": [copy.exitcode for copy in copies]}
"""


PIECES = """
    def main(params):
        for _ in range(20000):
            print(".", end="")
        print()
        print("x" * 600_000, end="")
        print("y", end="\\nand so on")
        return {}
"""


class Pieces(ShimTestCase):
    def test_a_line_may_be_printed_in_any_number_of_pieces(self):
        peer = self.shim()
        peer.start(Path(self.directory({"function.py": PIECES}), "function.py"), concurrency=2)
        peer.send("INVOKE", 1, with_head({"activation": "a"}, b"{}"), fin=True)
        lines = []
        while (frame := peer.receive()).kind == "LOG":
            lines.append(frame.payload[1:])
        self.assertEqual(frame.kind, "RESULT")
        half = 512 * 1024  # what a frame takes of a line
        self.assertEqual(lines, [b"." * 20000, b"x" * half, b"x" * (600_000 - half), b"y", b"and so on"])


class Copies(ShimTestCase):
    def test_what_a_copy_of_the_process_prints_goes_to_the_real_stdout(self):
        peer = self.shim()
        peer.start(Path(self.directory({"function.py": COPIES}), "function.py"), concurrency=2)
        for number in (0, 1):
            peer.send("INVOKE", number + 1, with_head({"activation": "a"}, b'{"n": %d}' % number), fin=True)
        lines, until = [], time.monotonic() + 60
        while True:
            frame = peer.receive()
            self.assertLess(time.monotonic(), until)
            if frame.call == 2 and frame.kind == "LOG":
                lines.append(frame.payload[1:])
            elif frame.call == 2:
                break
        self.assertEqual((frame.kind, json.loads(frame.payload[4:])), ("RESULT", {"ended": [0] * 20}))
        self.assertEqual(lines, [b"done"])
        self.assertEqual(sorted(peer.stdout.split("\n")), sorted(["", *(f"copy {n}" for n in range(20))]))

NO_THREADS = """
    import threading

    def refuse(*_, **__):
        raise RuntimeError("can't start new thread")

    def main(params):
        for name in ("_start_new_thread", "_start_joinable_thread"):
            if hasattr(threading, name):
                setattr(threading, name, refuse)
        print("there are no more", flush=True)
        threading.Event().wait()
"""


class Ends(ShimTestCase):
    def started(self, source):
        peer = self.shim()
        peer.start(Path(self.directory({"function.py": source}), "function.py"), concurrency=4)
        return peer

    def answer(self, peer):
        """The call's last frame."""
        peer.send("INVOKE", 1, with_head({"activation": "a"}, b'{"status": 3}'), fin=True)
        while True:
            frame = peer.receive()
            self.assertIsNotNone(frame, peer.stderr)
            if frame.kind != "LOG":
                return frame

    def test_a_coroutine_that_exits_is_answered_and_ends_the_process(self):
        peer = self.started(ENDS)
        frame = self.answer(peer)
        self.assertEqual((frame.kind, frame.json()["message"]), ("ERROR", "The action exited (SystemExit: 3)."))
        self.assertEqual(peer.wait(), 3)

    def test_what_ends_the_event_loop_ends_the_process(self):
        peer = self.started("import asyncio\nasync def main(params):\n    asyncio.get_running_loop().stop()\n    await asyncio.sleep(60)\n")
        peer.send("INVOKE", 1, with_head({"activation": "a"}, b"{}"), fin=True)
        self.assertIsNone(peer.receive())
        self.assertEqual(peer.wait(), 1)

    def test_a_stream_whose_caller_is_gone_ends_before_its_next_piece(self):
        peer = self.started(WAITS)
        peer.send("INVOKE", 1, with_head({"activation": "a"}, b'{"wait": true}'), fin=True)
        self.assertEqual([peer.receive().kind for _ in range(2)], ["RESULT", "BODY"])
        peer.send("ERROR", 1, b'{"kind":"cancelled","message":"the caller has gone away"}')
        frame = peer.receive()
        self.assertEqual((frame.kind, frame.call), ("END", 1))
        # What the first call still has to say is in nobody's way.
        for number in (2, 3):
            peer.send("INVOKE", number, with_head({"activation": "b"}, b"{}"), fin=True)
            frame = peer.receive()
            self.assertEqual((frame.kind, frame.call), ("RESULT", number))

    def test_an_exception_without_a_traceback_is_an_answer(self):
        frame = self.answer(self.started("def main(params):\n    raise SyntaxError('no', ('f.py', 1, '3', 'text'))\n"))
        self.assertEqual((frame.kind, json.loads(frame.payload[4:])), ("RESULT", {"error": "no (f.py, line 1)"}))

    def test_only_text_and_bytes_are_printed(self):
        frame = self.answer(self.started("import sys\ndef main(params):\n    sys.stdout.write(100)\n"))
        self.assertEqual(frame.kind, "RESULT", frame)
        self.assertIn("error", json.loads(frame.payload[4:]))

    def test_a_call_that_gets_no_thread_fails_alone(self):
        peer = self.started(NO_THREADS)
        peer.send("INVOKE", 1, with_head({"activation": "a"}, b"{}"), fin=True)
        self.assertEqual(peer.receive().kind, "LOG")
        for number in (2, 3):
            peer.send("INVOKE", number, with_head({"activation": "b"}, b"{}"), fin=True)
            frame = peer.receive()
            self.assertEqual((frame.kind, frame.call, frame.json()["message"]), ("ERROR", number, "The call could not begin: can't start new thread"))

    def test_a_finalizer_may_print_at_any_moment(self):
        peer = self.started(FINALIZERS)
        self.assertEqual(self.answer(peer).kind, "RESULT")

    def test_an_exception_that_cannot_be_printed_is_an_answer(self):
        frame = self.answer(self.started(CANNOT_BE_PRINTED))
        self.assertEqual((frame.kind, json.loads(frame.payload[4:])), ("RESULT", {"error": "<exception str() failed>"}))


if __name__ == "__main__":
    unittest.main()
