"""What docs/link-protocol.md promises, checked on every shim that can run here. Each test starts its own instance."""

import os
import select
import signal
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import shims  # noqa: E402
from peer import FAR_DEADLINE_MS, HEADER, U32, WINDOW, Peer, with_head  # noqa: E402

MIB = 1024 * 1024


class Contract:
    shim = None

    def setUp(self):
        self.peer = Peer(self.shim.argv)
        self.addCleanup(self._clean)

    def _clean(self):
        self.peer.socket.close()
        self.peer.process.kill()
        self.peer.wait()

    def ready(self, **init):
        self.peer.start(*self.shim.probe(), **init)
        return self.peer

    def assert_refused(self, status=3, kind="protocol"):
        """The shim says why on call 0 and ends."""
        error = self.peer.expect("ERROR")
        self.assertEqual((error.call, error.json()["kind"]), (0, kind), error)
        self.assertIsNone(self.peer.receive())
        self.assertEqual(self.peer.wait(), status)
        return error.json()["message"]

    def assert_alive(self):
        self.assertEqual(self.peer.invoke({"still": "here"}).json(), {"still": "here"})

    # --- starting

    def test_hello_is_sent_at_once_and_names_the_runtime(self):
        hello = self.peer.expect("HELLO")
        self.assertEqual(hello.call, 0)
        self.assertEqual(hello.json(), {"protocol": 1, "runtime": self.shim.language, "version": self.shim.version})

    def test_waits_for_init(self):
        self.peer.expect("HELLO")
        time.sleep(0.3)
        self.peer.init(*self.shim.probe())
        self.peer.expect("READY")
        self.assert_alive()

    def test_init_environment_is_there_when_code_loads(self):
        self.ready(env={"GREETING": "héllo ☃"})
        self.assertEqual(self.peer.invoke({"do": "state"}).json()["atLoad"], "héllo ☃")

    def test_missing_code(self):
        self.peer.expect("HELLO")
        self.peer.init("/nowhere/at/all", "main")
        self.assertIn("/nowhere/at/all", self.assert_refused(1, "developer"))

    def test_missing_entry(self):
        code, _ = self.shim.probe()
        self.peer.expect("HELLO")
        self.peer.init(code, "absent")
        self.assertIn("absent", self.assert_refused(1, "developer"))

    def test_code_that_does_not_load(self):
        self.peer.expect("HELLO")
        code, entry = self.shim.broken()
        self.peer.init(code, entry)
        message = self.assert_refused(1, "developer")
        self.assertIn({"nodejs": "broken.js:4", "python": "broken.py:4", "java": "broken at load"}[self.shim.language], message)
        self.assertNotEqual(self.peer.stderr, "")

    # --- JSON calls

    def test_unicode_both_ways(self):
        params = {"text": "héllo ☃ 🚀 \u0000 \" \\ \n", "ключ": ["", None, True, 1.5, -7, 12345678901234567]}
        if self.shim.language == "nodejs":
            params["ключ"][-1] = 9007199254740991  # JavaScript has no larger exact integer
        self.assertEqual(self.ready().invoke(params).json(), params)

    def test_empty_body_is_an_empty_object(self):
        self.assertEqual(self.ready().invoke(body=b"").json(), {})

    def test_an_explicit_json_content_type(self):
        answer = self.ready().invoke({"a": 1}, headers=[["content-type", "Application/JSON; charset=utf-8"]])
        self.assertEqual(answer.json(), {"a": 1})

    def test_arrays_in_and_out(self):
        self.ready()
        self.assertEqual(self.peer.invoke([1, "two", None]).json(), [1, "two", None])
        self.assertEqual(self.peer.invoke({"do": "echoArray", "items": [[], {}]}).json(), [[], {}])

    def test_a_json_result_has_no_head_and_one_frame(self):
        answer = self.ready().invoke({"a": 1})
        self.assertIsNone(answer.head)
        self.assertEqual(answer.frames, ["RESULT"])

    def test_parameters_of_one_megabyte(self):
        params = {"text": "aé☃" * 200_000}
        self.assertEqual(self.ready().invoke(params).json(), params)

    def test_parameters_and_result_beyond_the_window(self):
        params = {"text": "0123456789" * 500_000}
        self.assertEqual(self.ready().invoke(params).json(), params)

    def test_result_sizes_around_the_largest_frame(self):
        self.ready()
        for size in range(MIB - 40, MIB + 40, 9):
            params = {"t": "x" * (size - len('{"t":""}') - 4)}
            self.assertEqual(len(self.peer.invoke(params).json()["t"]), len(params["t"]))

    def test_state_stays_between_calls(self):
        self.ready()
        for call in range(1, 4):
            self.assertEqual(self.peer.invoke({"do": "state"}).json()["calls"], call)

    def test_frames_in_tiny_pieces(self):
        self.ready()
        self.peer.begin({})
        frame = HEADER.pack(len(with_head(self.peer.head, b'{"a":1}')), 8, 1, 0, 1) + with_head(self.peer.head, b'{"a":1}')
        for at in range(0, len(frame), 7):
            self.peer.socket.sendall(frame[at:at + 7])
            time.sleep(0.001)
        self.assertEqual(self.peer.answer(1).json(), {"a": 1})

    def test_call_ids_are_unsigned(self):
        self.ready()
        self.peer.last_call = 0xFFFFFFFE
        self.assertEqual(self.peer.invoke({"a": 1}).json(), {"a": 1})

    # --- binary calls and streams

    def test_binary_both_ways(self):
        body = bytes(range(256)) * 3
        answer = self.ready().invoke(body=body, method="POST", headers=[["content-type", "image/png"]])
        self.assertEqual(answer.body, body)
        self.assertEqual(answer.head["status"], 200)
        self.assertEqual((answer.headers["content-type"], answer.headers["x-length"], answer.headers["x-method"]), ("image/png", "768", "POST"))

    def test_bytes_are_an_octet_stream(self):
        answer = self.ready().invoke({"do": "binary"})
        self.assertEqual((answer.body, answer.headers["content-type"]), (bytes([0, 255, 128, 10]), "application/octet-stream"))

    def test_response_object(self):
        answer = self.ready().invoke({"do": "response"})
        self.assertEqual((answer.body.decode(), answer.head["status"], answer.headers["x-made"]), ("héllo", 201, "by probe"))
        self.assertEqual(answer.headers["content-type"], "text/plain; charset=utf-8")

    def test_ten_megabytes_in_and_out(self):
        body = bytes(i * 7 & 255 for i in range(10 * MIB // 64)) * 64
        answer = self.ready().invoke(body=body, headers=[["content-type", "application/zip"]])
        self.assertEqual(answer.headers["x-length"], str(len(body)))
        self.assertEqual(answer.body, body)

    def test_request_body_in_small_pieces(self):
        answer = self.ready().invoke(body=b'{"a": "0123456789"}', split=3)
        self.assertEqual(answer.json(), {"a": "0123456789"})

    def test_a_body_frame_with_fin_completes_the_body(self):
        call = self.ready().begin({})
        self.peer.send("INVOKE", call, with_head(self.peer.head, b'{"a"'))
        self.peer.send("BODY", call, b":1}", fin=True)
        self.assertEqual(self.peer.answer(call).json(), {"a": 1})

    def test_streamed_result_of_ten_megabytes(self):
        answer = self.ready().invoke({"do": "stream", "pieces": 100, "size": 104858})
        self.assertEqual(answer.body, b"".join(bytes([i]) * 104858 for i in range(100)))
        self.assertEqual((answer.frames[0], answer.frames[1], answer.frames[-1]), ("RESULT", "BODY", "END"))

    def test_sender_keeps_within_the_window(self):
        call = self.ready().begin({})
        self.peer.send("INVOKE", call, with_head(self.peer.head, b'{"do":"stream","pieces":40,"size":100000}'), fin=True)
        self.peer.expect("RESULT")
        received = 0
        # It may take its time for the first half; that no more comes than may is seen when nothing comes for a while.
        while received <= WINDOW // 2 or self.peer.buffer or select.select([self.peer.socket], [], [], 3)[0]:
            received += len(self.peer.expect("BODY").payload)
            self.assertLessEqual(received, WINDOW)
        self.peer.send("ACK", call, U32.pack(received))
        self.assertEqual(received + len(self.peer.answer(call).body), 4_000_000)

    def test_caller_gone_ends_a_stream(self):
        call = self.ready().begin({})
        self.peer.send("INVOKE", call, with_head(self.peer.head, b'{"do":"stream","size":10}'), fin=True)
        self.peer.expect("RESULT")
        self.peer.expect("BODY")
        self.peer.send("ERROR", call, b'{"kind":"gone","message":"the caller has gone away"}')
        while self.peer.receive().kind == "BODY":
            pass
        self.assertEqual(self.peer.invoke({"do": "state"}).json()["streamsClosed"], 1)

    def test_caller_gone_ends_a_stream_that_pauses_where_calls_run_side_by_side(self):
        """Flint ends a process whose cancelled call does not end, and with it the other calls."""
        call = self.ready(concurrency=2).begin({})
        self.peer.send("INVOKE", call, with_head(self.peer.head, b'{"do":"stream","size":10,"pauseMs":120000}'), fin=True)
        self.peer.expect("RESULT")
        self.peer.expect("BODY")
        self.peer.send("ERROR", call, b'{"kind":"gone","message":"the caller has gone away"}')
        self.assertEqual(self.peer.expect("END").call, call)
        self.assert_alive()

    def test_a_long_answer_of_a_call_that_leaves_its_thread_interrupted(self):
        call = self.ready(concurrency=2).begin({})
        params = b'{"do":"stream","pieces":40,"size":100000,"interrupted":true}'
        self.peer.send("INVOKE", call, with_head(self.peer.head, params), fin=True)
        self.assertEqual(len(self.peer.answer(call).body), 4_000_000)
        self.assert_alive()

    def test_caller_gone_while_the_window_is_closed(self):
        call = self.ready().begin({})
        self.peer.send("INVOKE", call, with_head(self.peer.head, b'{"do":"stream","pieces":40,"size":100000}'), fin=True)
        self.peer.expect("RESULT")
        self.peer.expect("BODY")
        time.sleep(0.2)
        self.peer.send("ERROR", call, b'{"kind":"gone","message":"the caller has gone away"}')
        while self.peer.receive().kind == "BODY":
            pass
        self.assertEqual(self.peer.invoke({"do": "state"}).json()["streamsClosed"], 1)

    def test_caller_gone_before_the_request_is_complete(self):
        call = self.ready().begin({})
        self.peer.send("INVOKE", call, with_head(self.peer.head, b'{"a"'))
        self.peer.send("ERROR", call, b'{"kind":"gone","message":"the caller has gone away"}')
        self.assertEqual(self.peer.invoke({"do": "state"}).json()["calls"], 1)

    def test_late_frames_of_an_ended_call_are_ignored(self):
        self.ready().invoke({})
        self.peer.send("ACK", 1, U32.pack(10))
        self.peer.send("ERROR", 1, b'{"kind":"gone","message":""}')
        self.assert_alive()

    # --- errors of the function

    def test_exception(self):
        answer = self.ready().invoke({"do": "fail"})
        if self.shim.thrown == "result":
            self.assertEqual(answer.json(), {"error": "boom"})
        else:
            self.assertEqual(answer.error["kind"], "developer")
            self.assertRegex(answer.error["message"], r"^An error has occurred( \(see logs for details\))?: \S*: boom$")
        self.assert_alive()
        self.assertRegex(self.peer.stderr, r"probe\.(js|py)|Probe\.java")

    def test_result_that_is_neither_object_nor_array(self):
        answer = self.ready().invoke({"do": "scalar"})
        self.assertEqual(answer.error["kind"], "developer")
        self.assertTrue(answer.error["message"].startswith("The action did not return a dictionary or array."), answer.error)
        self.assert_alive()

    def test_result_that_json_cannot_express(self):
        answer = self.ready().invoke({"do": "unencodable"})
        self.assertEqual(answer.error["kind"], "developer")
        self.assertTrue(answer.error["message"].startswith("The action did not return a dictionary or array."), answer.error)
        self.assert_alive()

    def test_stream_that_fails(self):
        answer = self.ready().invoke({"do": "streamFails"})
        self.assertEqual(answer.frames, ["RESULT", "BODY", "ERROR"])
        self.assertIn("boom", answer.error["message"])
        self.assert_alive()

    def test_exit_in_the_handler_ends_the_instance(self):
        call = self.ready().begin({})
        self.peer.send("INVOKE", call, with_head(self.peer.head, b'{"do":"exit"}'), fin=True)
        last = self.peer.receive()
        if last is not None:
            self.assertEqual((last.kind, last.call, last.json()["kind"]), ("ERROR", call, "developer"))
            self.assertIn("exited", last.json()["message"])
            self.assertIsNone(self.peer.receive())
        self.assertEqual(self.peer.wait(), 7)

    # --- output, environment, context

    def test_output_is_in_the_pipes_before_the_answer(self):
        lines = 20_000  # several times what a pipe holds
        answer = self.ready().invoke({"do": "log", "lines": lines})
        self.peer.process.send_signal(signal.SIGSTOP)
        self.assertEqual(answer.json(), {})
        for stream, word in (("stdout", "out"), ("stderr", "err")):
            wanted = "".join(f"{word} {i} ☃\n" for i in range(lines)).encode()
            deadline = time.monotonic() + 60
            while len(self.peer.output[stream].so_far()) < len(wanted) and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertEqual(self.peer.output[stream].so_far(), wanted)

    def test_function_may_close_its_stdout(self):
        self.ready()
        self.assertEqual(self.peer.invoke({"do": "closeStdout"}).json(), {"closed": True})
        self.peer.invoke({"do": "log", "lines": 1})
        self.assert_alive()

    def test_environment_of_a_call(self):
        names = ["__OW_ACTIVATION_ID", "__OW_DEADLINE", "__OW_NAMESPACE", "__OW_ACTION_NAME", "__OW_ACTION_VERSION",
                 "__OW_TRANSACTION_ID", "__OW_API_KEY", "__OW_API_HOST", "FLINT_LINK_FD"]
        self.ready(namespace="ada", name="math/add", version="1.2.3")
        first = self.peer.invoke({"do": "env", "names": names}, transaction="t1", apiKey="u:k", apiHost="http://h").json()
        self.assertEqual(list(first.values()), ["0" * 31 + "1", str(FAR_DEADLINE_MS), "ada", "/ada/math/add", "1.2.3", "t1", "u:k", "http://h", None])
        second = self.peer.invoke({"do": "env", "names": names}).json()
        self.assertEqual(list(second.values()), ["0" * 31 + "2", str(FAR_DEADLINE_MS), "ada", "/ada/math/add", "1.2.3", None, None, None, None])

    def test_where_the_api_is_is_in_every_call_that_does_not_say_otherwise(self):
        self.ready(env={"__OW_API_HOST": "http://h"})
        for more, host in (({}, "http://h"), ({"apiHost": "http://other"}, "http://other"), ({}, "http://h")):
            self.assertEqual(self.peer.invoke({"do": "env", "names": ["__OW_API_HOST"]}, **more).json(), {"__OW_API_HOST": host})

    def test_processes_of_a_call_have_its_environment(self):
        self.ready()
        for call, transaction in ((1, "t1"), (2, None), (3, "t3")):
            more = {} if transaction is None else {"transaction": transaction}
            lines = self.peer.invoke({"do": "envOfChild"}, **more).json()["lines"]
            wanted = [f"__OW_ACTIVATION_ID={call:032}"] + ([] if transaction is None else [f"__OW_TRANSACTION_ID={transaction}"])
            self.assertEqual(sorted(line for line in lines if line.startswith(("__OW_ACTIVATION_ID", "__OW_TRANSACTION_ID"))), wanted)

    def test_context(self):
        self.ready()
        asked = int(time.time() * 1000)
        deadline = asked + 600_000
        context = self.peer.invoke({"do": "context"}, deadline=deadline, method="POST", headers=[["x-a", "1"], ["x-a", "2"]]).json()
        took = time.time() * 1000 - asked
        self.assertTrue(600_000 - took - 10 <= context.pop("remaining") <= 600_000, took)
        self.assertEqual(context, {"activation": "0" * 31 + "1", "name": "f", "version": "0.0.1", "namespace": "guest",
                                   "method": "POST", "headers": {"x-a": "1, 2"}})
        self.assertEqual(self.peer.invoke({"do": "context"}, deadline=1).json()["remaining"], 0)

    def test_child_processes_do_not_inherit_the_link(self):
        text = self.ready().invoke({"do": "descriptors"}).json()["text"]
        self.assertIn("/proc/", text)
        link = os.readlink(f"/proc/{self.peer.process.pid}/fd/3")
        self.assertTrue(link.startswith("socket:["), link)
        self.assertNotIn(link, text)

    # --- a peer that goes away or breaks the protocol

    def test_end_of_the_link_before_init(self):
        self.peer.expect("HELLO")
        self.assertEqual(self.peer.close(), 0)
        self.assertEqual(self.peer.stderr, "")

    def test_end_of_the_link_when_ready(self):
        self.ready().invoke({})
        self.assertEqual(self.peer.close(), 0)
        self.assertEqual(self.peer.stderr, "")

    def test_end_of_the_link_in_a_frame(self):
        self.ready()
        self.peer.socket.sendall(b"\0\0\0\x09\x08")
        self.assertEqual(self.peer.close(), 0)

    def test_end_of_the_link_in_a_stream(self):
        call = self.ready().begin({})
        self.peer.send("INVOKE", call, with_head(self.peer.head, b'{"do":"stream","size":10}'), fin=True)
        self.peer.expect("RESULT")
        self.assertEqual(self.peer.close(), 0)
        self.assertEqual(self.peer.stderr, "")

    def test_second_init(self):
        self.ready()
        self.peer.init(*self.shim.probe())
        self.assertEqual(self.assert_refused(), "Cannot initialize the action more than once.")

    def test_invoke_before_init(self):
        self.peer.expect("HELLO")
        self.peer.send("INVOKE", 1, with_head({}, b"{}"), fin=True)
        self.assert_refused()

    def test_malformed_init(self):
        for_this = self.peer
        for_this.expect("HELLO")
        for_this.send("INIT", payload=b'{"code":')
        self.assert_refused()

    def test_malformed_invoke_head(self):
        self.ready().send("INVOKE", 1, U32.pack(3) + b"{a}{}", fin=True)
        self.assert_refused()

    def test_malformed_body(self):
        """It is the caller's mistake: the instance, which may be serving others, goes on."""
        self.ready()
        self.assert_body_refused()

    def test_malformed_body_where_calls_run_side_by_side(self):
        self.ready(concurrency=4)
        self.assert_body_refused()

    def assert_body_refused(self):
        self.peer.send("INVOKE", 99, with_head({"activation": "a"}, b'{"a":'), fin=True)
        error = self.peer.expect("ERROR")
        self.assertEqual((error.call, error.json()["kind"]), (99, "developer"), error)
        self.assertIn("the request body is not JSON", error.json()["message"])
        self.assert_alive()

    def test_truncated_invoke(self):
        self.ready().send("INVOKE", 1, b"\0\0\0\x09{}", fin=True)
        self.assert_refused()

    def test_unknown_kind(self):
        self.ready().socket.sendall(HEADER.pack(0, 14, 0, 0, 0))
        self.assert_refused()

    def test_oversize_frame(self):
        self.ready().socket.sendall(HEADER.pack(MIB + 1, 9, 0, 0, 1))
        self.assert_refused()

    def test_body_without_a_call(self):
        self.ready().send("BODY", 9, b"x")
        self.assert_refused()


def load_tests(loader, _, __):
    scratch = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(scratch.cleanup)
    suite = unittest.TestSuite()
    for shim in shims.found(Path(scratch.name), report=lambda text: print(text, file=sys.stderr)):
        name = "Contract_" + shim.name.replace(" ", "_").replace(".", "_")
        suite.addTests(loader.loadTestsFromTestCase(type(name, (Contract, unittest.TestCase), {"shim": shim, "__module__": __name__})))
    suite._scratch = scratch  # lives as long as the suite
    return suite


if __name__ == "__main__":
    unittest.main()
