import signal
import sys
import time
import unittest
from pathlib import Path

from support import ShimTestCase

from peer import with_head

NOT_JSON = "The action did not return a dictionary or array."


class Results(ShimTestCase):
    def result(self, body):
        peer = self.started(f"async def wrap(x): return x\ndef main(params):\n    {body}\n")
        first, second = peer.invoke(), peer.invoke()
        self.assertEqual(first.body, second.body)
        return first

    def test_json(self):
        for body, expected in {
            "return {'a': 1}": b'{"a":1}',
            "return [1, 'two']": b'[1,"two"]',
            "return (1, 2)": b"[1,2]",
            "return wrap({'a': 1})": b'{"a":1}',
            "return {1: None}": b'{"1":null}',
            "return {'a': '\\ud800'}": b'{"a":"\\ud800"}',
            "import collections; return collections.OrderedDict(a=1)": b'{"a":1}',
        }.items():
            with self.subTest(body):
                self.assertEqual(self.result(body).body, expected)

    def test_exceptions_are_application_errors(self):
        for body, expected in {
            "raise ValueError('no')": {"error": "no"},
            "raise KeyError('k')": {"error": "'k'"},
            "raise RuntimeError": {"error": ""},
        }.items():
            with self.subTest(body):
                self.assertEqual(self.result(body).json(), expected)

    def test_async_exception(self):
        peer = self.started("async def main(params):\n    raise ValueError('no')\n")
        self.assertEqual(peer.invoke().json(), {"error": "no"})

    def test_traceback_shows_only_user_code(self):
        peer = self.started("def main(params):\n    return inner()\n\ndef inner():\n    raise ValueError('no')\n")
        peer.invoke()
        peer.invoke()
        self.assertRegex(peer.stderr, r"(?s)Traceback.*function\.py\", line 2, in main.*function\.py\", line 5, in inner.*ValueError: no")
        self.assertNotIn("/flint_shim/", peer.stderr)
        peer = self.started("async def main(params):\n    return await inner()\n\nasync def inner():\n    raise ValueError('no')\n")
        peer.invoke()
        peer.invoke()
        self.assertRegex(peer.stderr, r"(?s)Traceback.*function\.py\", line 2, in main.*function\.py\", line 5, in inner.*ValueError: no")
        self.assertNotRegex(peer.stderr, "/flint_shim/|/asyncio/")

    def test_developer_errors(self):
        for body, text in {
            "return 5": f"{NOT_JSON} It returned a value of type int.",
            "return 'text'": f"{NOT_JSON} It returned a value of type str.",
            "return None": f"{NOT_JSON} It returned a value of type NoneType.",
            "return {'a': float('inf')}": f"{NOT_JSON} It cannot be written as JSON: Out of range float",
            "return {'a': {1, 2}}": f"{NOT_JSON} It cannot be written as JSON: Object of type set",
            "a = []; a.append(a); return a": f"{NOT_JSON} It cannot be written as JSON: Circular",
            "return {(1, 2): 3}": f"{NOT_JSON} It cannot be written as JSON: keys must be",
            "return (x for x in [5])": "A body must consist of str or bytes, not of int.",
        }.items():
            with self.subTest(body):
                peer = self.started(f"def main(params):\n    if 'fine' in params: return params\n    {body}\n")
                error = peer.invoke().error
                self.assertEqual(error["kind"], "developer")
                self.assertTrue(error["message"].startswith(text), error)
                self.assertEqual(peer.invoke({"fine": 1}).json(), {"fine": 1})

    def test_an_exception_that_cannot_be_printed_is_an_answer(self):
        source = "class E(Exception):\n    def __str__(self):\n        return 404\n"
        peer = self.started(source + "def main(params):\n    raise E\n")
        for _ in range(2):
            self.assertEqual(peer.invoke().json(), {"error": "<exception str() failed>"})
        failed = self.load_error(self.directory({"__main__.py": source + "raise E\n"}))
        self.assertIn("E: <exception str() failed>", failed)

    def test_nor_does_one_without_a_traceback_end_the_process(self):
        source = "def main(params):\n    raise SyntaxError('no', ('f.py', 1, '3', 'text'))\n"  # the column is no number
        peer = self.started(source)
        for _ in range(2):
            self.assertEqual(peer.invoke().json(), {"error": "no (f.py, line 1)"})

    def test_what_awaits_something_cancelled_fails_its_call_only(self):
        source = ("import asyncio\nasync def main(params):\n    task = asyncio.ensure_future(asyncio.sleep(60))\n    task.cancel()\n"
                  "    await task\n")
        peer = self.started(source)
        for _ in range(2):
            self.assertEqual(peer.invoke().json(), {"error": ""})

    def test_what_is_raised_between_calls_is_told_and_ends_the_process(self):
        peer = self.started("""
            import signal, threading, time
            threading.Thread(target=time.sleep, args=(3600,)).start()
            def too_late(*_):
                raise TimeoutError("too late")
            def main(params):
                signal.signal(signal.SIGALRM, too_late)
                signal.setitimer(signal.ITIMER_REAL, params["after"])
                return {}
        """)
        self.assertEqual(peer.invoke({"after": 30}).json(), {})  # replaced by the next call's
        self.assertEqual(peer.invoke({"after": 0.3}).json(), {})
        error = peer.expect("ERROR")
        self.assertEqual((error.call, error.json()["kind"]), (0, "developer"))
        self.assertIn("outside of the handler: TimeoutError: too late", error.json()["message"])
        self.assertEqual(peer.wait(), 1)
        self.assertIn("TimeoutError", peer.stderr)

    def test_exit_answers_and_ends(self):
        peer = self.started("import sys\ndef main(params):\n    print('bye', end='')\n    sys.exit(3)\n")
        self.assertEqual(peer.invoke().error, {"kind": "developer", "message": "The action exited (SystemExit: 3)."})
        self.assertEqual((peer.wait(), peer.stdout), (3, "bye"))

    def test_a_message_with_half_a_character_is_text(self):
        for body, message in {
            "raise SystemExit('no \\udcff')": "The action exited (SystemExit: no \ufffd).",
            "raise SystemExit('no \\ud83d\\ude00')": "The action exited (SystemExit: no \U0001f600).",
            "yield 'x'; raise ValueError('\\ud83d no')": "An error has occurred: ValueError: \ufffd no",
        }.items():
            with self.subTest(body):
                peer = self.started(f"def main(params):\n    {body}\n")
                self.assertEqual(peer.invoke().error, {"kind": "developer", "message": message})

    def test_threads_do_not_hold_up_the_end(self):
        peer = self.started("import threading, time\nthreading.Thread(target=time.sleep, args=(3600,)).start()\ndef main(params): return {}\n")
        peer.invoke()
        self.assertEqual(peer.close(), 0)


FORKS = """
    import os, sys

    def main(params):
        child = os.fork()
        if child == 0:
            if params["end"] == "exits":
                sys.exit(3)
            if params["end"] == "raises":
                raise ValueError("in the child")
            return {"from": "the child"}
        return {"status": os.WEXITSTATUS(os.waitpid(child, 0)[1])}
"""
FORK_ENDS = {"exits": 3, "raises": 1, "returns": 0}


class Forks(ShimTestCase):
    def assert_the_parent_answers(self, peer):
        for end, status in FORK_ENDS.items():
            with self.subTest(end):
                self.assertEqual(peer.invoke({"end": end}).json(), {"status": status})

    def test_a_process_that_the_function_forks_gives_no_answer(self):
        peer = self.started(FORKS)
        self.assert_the_parent_answers(peer)
        peer.close()
        self.assertIn("in the child", peer.stderr)

    def test_nor_where_calls_run_side_by_side(self):
        peer = self.shim()
        peer.start(Path(self.directory({"function.py": FORKS}), "function.py"), concurrency=2)
        self.assert_the_parent_answers(peer)


class Bytes(ShimTestCase):
    def test_results_of_bytes(self):
        for body in ("return b'bytes'", "return bytearray(b'bytes')", "return memoryview(b'xbytes')[1:]", "return iter(['by', b'tes'])",
                     "return (p for p in ('by', b'tes'))", "import io; return Response(io.BytesIO(b'bytes').read())",
                     "return Response(p for p in ['bytes'])"):
            with self.subTest(body):
                answer = self.started(f"from flint import Response\ndef main(params):\n    {body}\n").invoke()
                self.assertEqual((answer.body, answer.head["status"], answer.headers["content-type"]), (b"bytes", 200, "application/octet-stream"))

    def test_async_generator(self):
        peer = self.started("import asyncio\nasync def main(params):\n    yield 'by'\n    await asyncio.sleep(0)\n    yield b'tes'\n")
        self.assertEqual(peer.invoke().body, b"bytes")
        self.assertEqual(peer.invoke().frames, ["RESULT", "BODY", "BODY", "END"])

    def test_response(self):
        peer = self.started("from flint import Response\ndef main(params): return Response('é', 404, {'X-One': 1}, 'text/html')\n")
        answer = peer.invoke()
        self.assertEqual((answer.body.decode(), answer.head), ("é", {"status": 404, "headers": [["x-one", "1"], ["content-type", "text/html"]]}))

    def test_a_head_that_is_too_large_is_a_developer_error(self):
        for body in ("'x'", "iter(['x'])"):
            peer = self.started(f"""
                from flint import Response
                def main(params): return Response({body}, headers={{'x-a': 'y' * params['length']}})
                """)
            for length in (300 << 10, 2 << 20):
                error = peer.invoke({"length": length}).error
                self.assertEqual(error["kind"], "developer")
                self.assertRegex(error["message"], r"^The head of the answer is too large: .* and may have 262144\.$")
            self.assertEqual(peer.invoke({"length": 200 << 10}).body, b"x")

    def test_text_has_a_text_type(self):
        answer = self.started("from flint import Response\ndef main(params): return Response('é')\n").invoke()
        self.assertEqual(answer.headers["content-type"], "text/plain; charset=utf-8")

    def test_generator_prints_before_the_end(self):
        peer = self.started("import sys\ndef main(params):\n    yield 'x'\n    print('tail', end='')\n")
        self.assertEqual(peer.invoke().body, b"x")
        peer.close()
        self.assertEqual(peer.stdout, "tail")

    def closed_early(self, at_the_end):
        """The last frame of a stream whose caller goes away."""
        peer = self.started(f"import time\ndef main(params):\n    try:\n        while True: yield 'x'\n    finally:\n        {at_the_end}\n")
        call = peer.begin({})
        peer.send("INVOKE", call, with_head(peer.head, b"{}"), fin=True)
        self.assertEqual([peer.receive().kind for _ in range(2)], ["RESULT", "BODY"])
        peer.send("ERROR", call, b'{"kind":"cancelled","message":"the caller has gone away"}')
        while True:
            frame = peer.receive()
            if frame.kind != "BODY":
                return peer, frame

    def test_what_a_stream_prints_when_it_is_closed_comes_before_the_end(self):
        peer, frame = self.closed_early("time.sleep(0.2); print('closed')")
        peer.process.send_signal(signal.SIGSTOP)
        self.assertEqual(frame.kind, "END")
        for _ in range(200):
            if peer.stdout:
                break
            time.sleep(0.01)
        self.assertEqual(peer.stdout, "closed\n")

    def test_a_stream_that_fails_when_it_is_closed_ends_once(self):
        peer, frame = self.closed_early("raise ValueError('late')")
        self.assertEqual((frame.kind, frame.json()["message"]), ("ERROR", "An error has occurred: ValueError: late"))
        self.assertEqual(peer.close(), 0)

    def test_a_process_that_a_stream_forks_streams_nothing(self):
        peer = self.started("""
            import os
            def pieces(then):
                yield "a"
                child = os.fork()
                if child == 0:
                    if then == "yields": yield "of the child"
                    if then == "raises": raise ValueError("in the child")
                    return
                yield f"b{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}"
            def main(params): return pieces(params["then"])
        """)
        for then, status in (("yields", 0), ("ends", 0), ("raises", 1), ("yields", 0)):
            self.assertEqual(peer.invoke({"then": then}).body, f"ab{status}".encode(), then)


class Async(ShimTestCase):
    def test_one_loop_for_all_calls(self):
        peer = self.started("""
            import asyncio
            loops = set()
            async def main(params):
                loops.add(asyncio.get_running_loop())
                return {"loops": len(loops)}
        """)
        peer.invoke()
        self.assertEqual(peer.invoke().json(), {"loops": 1})


class AsyncStreams(ShimTestCase):
    STREAMS = """
        import asyncio, contextvars
        variable = contextvars.ContextVar("variable", default="none")
        closed = []

        async def one_task():
            first = asyncio.current_task()
            before = variable.get()
            variable.set("own")
            yield before
            await asyncio.sleep(0)
            yield f" {variable.get()} {asyncio.current_task() is first}"

        async def timeout():
            try:
                async with asyncio.timeout(0.05):
                    yield "a"
                    await asyncio.sleep(60)
            except TimeoutError:
                yield "b"

        async def timeout_while_it_waits():
            try:
                async with asyncio.timeout(0):
                    yield "a"
                    yield "b"
            except TimeoutError:
                yield "c"

        async def group():
            pieces = asyncio.Queue()
            async with asyncio.TaskGroup() as group:
                group.create_task(pieces.put("a"))
                group.create_task(pieces.put("b"))
                for _ in range(2): yield await pieces.get()

        async def group_that_fails():
            async def fails(): raise ValueError("no")
            async with asyncio.TaskGroup() as group:
                group.create_task(fails())
                yield "a"
                await asyncio.sleep(60)

        async def exits():
            raise SystemExit(3)
            yield "a"

        async def without_end():
            task = asyncio.current_task()
            try:
                while True: yield "x"
            finally:
                await asyncio.sleep(0)
                closed.append(asyncio.current_task() is task)

        class Plain:
            left = 2
            async def __anext__(self):
                if self.left == 0: raise StopAsyncIteration
                self.left -= 1
                return "p"
            async def aclose(self): closed.append("plain")

        def plain(): return Plain()
        def main(params): return globals()[params["do"]]() if "do" in params else {"closed": closed}
    """

    def test_one_task_takes_all_pieces(self):
        for concurrency in (1, 2):
            peer = self.shim()
            peer.start(Path(self.directory({"function.py": self.STREAMS}), "function.py"), concurrency=concurrency)
            for _ in range(2):
                self.assertEqual(peer.invoke({"do": "one_task"}).body, b"none own True")
            self.assertEqual(peer.invoke({"do": "plain"}).body, b"pp")
            self.assertEqual(peer.invoke({}).json(), {"closed": ["plain"]})
            self.assertEqual(peer.stderr, "")

    @unittest.skipIf(sys.version_info < (3, 11), "asyncio has had timeouts and task groups since 3.11")
    def test_timeouts_and_task_groups_span_pieces(self):
        peer = self.started(self.STREAMS)
        for do, body in {"timeout": b"ab", "timeout_while_it_waits": b"ac", "group": b"ab"}.items():
            self.assertEqual(peer.invoke({"do": do}).body, body, do)
        failed = peer.invoke({"do": "group_that_fails"})
        self.assertEqual(failed.error["message"], "An error has occurred: ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)")
        self.assertEqual(peer.invoke({}).json(), {"closed": []})
        self.assertIn("ValueError: no", peer.stderr)
        self.assertNotRegex(peer.stderr, "/flint_shim/")

    def test_one_that_exits_ends_the_process(self):
        peer = self.started(self.STREAMS)
        self.assertEqual(peer.invoke({"do": "exits"}).error["message"], "The action exited (SystemExit: 3).")
        self.assertEqual(peer.wait(), 3)

    def test_one_whose_caller_goes_away_is_closed_in_its_task(self):
        peer = self.started(self.STREAMS)
        call = peer.begin({})
        peer.send("INVOKE", call, with_head(peer.head, b'{"do":"without_end"}'), fin=True)
        self.assertEqual([peer.receive().kind for _ in range(2)], ["RESULT", "BODY"])
        peer.send("ERROR", call, b'{"kind":"cancelled","message":"the caller has gone away"}')
        while peer.receive().kind == "BODY":
            pass
        self.assertEqual(peer.invoke({}).json(), {"closed": [True]})


class Contexts(ShimTestCase):
    SETS = """
        import contextvars, decimal
        variable = contextvars.ContextVar("variable", default="none")
        at_load = contextvars.ContextVar("at_load")
        at_load.set("kept")
        decimal.getcontext().prec = 7
        def main(params):
            before = variable.get()
            variable.set(params["n"])
            if params.get("streams"): return stream(before)
            return {"before": before, "at_load": at_load.get(), "prec": decimal.getcontext().prec}
        def stream(before):
            yield f"{before} {variable.get()} "
            variable.set("later")
            yield variable.get()
    """

    def test_what_a_call_sets_ends_with_it_and_what_loading_sets_stays(self):
        peer = self.started(self.SETS)
        for number in range(3):
            self.assertEqual(peer.invoke({"n": number}).json(), {"before": "none", "at_load": "kept", "prec": 7})
            self.assertEqual(peer.invoke({"n": number, "streams": True}).body, f"none {number} later".encode())


class Output(ShimTestCase):
    def test_a_line_is_in_the_pipe_at_once(self):
        peer = self.started("import os\ndef main(params):\n    print('line')\n    os.kill(os.getpid(), 9)\n")
        call = peer.begin({})
        peer.send("INVOKE", call, with_head(peer.head, b"{}"), fin=True)
        self.assertEqual(peer.wait(), -9)
        self.assertEqual(peer.stdout, "line\n")

    def test_what_native_code_prints_is_there_before_the_answer(self):
        peer = self.started("import ctypes\nlibrary = ctypes.CDLL(None)\ndef main(params):\n    library.printf(b'native ')\n    return {}\n")
        for said in ("native ", "native native "):
            peer.invoke()
            peer.process.send_signal(signal.SIGSTOP)
            for _ in range(200):
                if len(peer.stdout) >= len(said):
                    break
                time.sleep(0.01)
            self.assertEqual(peer.stdout, said)
            peer.process.send_signal(signal.SIGCONT)

    def test_replaced_stdout(self):
        peer = self.started("import io, sys\nsys.stdout = io.StringIO()\ndef main(params):\n    print('lost')\n    sys.__stdout__.write('kept')\n    return {}\n")
        peer.invoke()
        peer.close()
        self.assertEqual(peer.stdout, "kept")


if __name__ == "__main__":
    unittest.main()
