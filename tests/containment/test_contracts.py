"""Hostile functions that are no handlers in Node.js or Python: programs of contract stdio, servers of contract http, and Java."""

import base64
import unittest

from platform_under_attack import LONGER, PATIENT, SHORT, UnderAttack

# For what is to meet its time limit: the longer one where the machine was too busy to start the runtime within the short one.
ENDED = (SHORT, LONGER)

PROGRAM = """#!/bin/sh
case "$(cat)" in
*loop*) while :; do :; done ;;
*processes*) b() { b | b & }; b; while :; do :; done ;;
*memory*) x=xxxxxxxxxxxxxxxx; while :; do x="$x$x"; done ;;
esac
"""

SERVER = """
import http.server, json, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        bomb, hoard = json.loads(self.rfile.read(int(self.headers['content-length'])))['bomb'], []
        while bomb == 'memory': hoard.append(bytearray(8 << 20))
        while bomb == 'processes':
            try: os.fork()
            except OSError: pass
        while True: pass
http.server.HTTPServer(('127.0.0.1', int(os.environ['PORT'])), Handler).serve_forever()
"""

# Is called at deploy too, without arguments: its classes are archived then.
JAVA = """
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
public class Hostile {
    private static final List<byte[]> HOARD = new ArrayList<>();
    public static Map<String, Object> main(Map<String, Object> params) {
        String bomb = (String) params.getOrDefault("bomb", "none");
        while (bomb.equals("loop")) { }
        while (bomb.equals("memory")) HOARD.add(new byte[8 << 20]);
        while (bomb.equals("processes")) {
            try { new Thread(Hostile::sleep).start(); } catch (OutOfMemoryError full) { }
        }
        if (bomb.equals("exit")) System.exit(0);
        return Map.of();
    }
    private static void sleep() {
        try { Thread.sleep(Long.MAX_VALUE); } catch (InterruptedException never) { }
    }
}
"""

FUNCTIONS = {
    "stdio": {
        "kind": "native",
        "contract": "stdio",
        "code": {"format": "executable", "base64": base64.b64encode(PROGRAM.encode()).decode()},
    },
    "http": {"kind": "python:default", "contract": "http", "code": {"format": "source", "text": SERVER}},
    "java": {"kind": "java:default", "code": {"format": "source", "text": JAVA}},
}


class Contracts(UnderAttack):
    def attack(self, contract, bomb, limits_to_try=(PATIENT,)):
        """The time limit, status and response of a call."""
        for limits in limits_to_try:
            name = f"{contract}-{bomb}"
            request = {**FUNCTIONS[contract], "limits": {**limits, "memory_mb": 256}}
            answer = self.server.request("PUT", f"/v1/functions/{name}", request)
            self.assertIn(answer.status, (200, 201), answer)
            status, response = self.call(name, {"bomb": bomb})
            if "nitializ" not in str(response["result"]):
                break
        return limits["timeout_ms"], status, response

    def of_each(self, check, *attack):
        """check(time limit, status, response) of this attack in each contract."""
        self.each(lambda _, contract: check(*self.attack(contract, *attack)), [(contract,) for contract in FUNCTIONS])

    def test_an_endless_loop_ends_at_the_deadline(self):
        def check(limit, status, response):
            self.assertEqual((status, response["status"]), (502, "action developer error"))
            self.assertEqual(response["result"]["error"], f"The action exceeded its time limits of {limit} milliseconds.")

        self.of_each(check, "loop", ENDED)

    def test_a_bomb_of_processes_or_threads_is_contained(self):
        def check(_, status, response):
            # Processes and threads need memory too, so either limit may be met first.
            self.assertEqual((status, response["status"]), (502, "action developer error"), response)

        self.of_each(check, "processes", ENDED)

    def test_a_memory_bomb_is_named(self):
        def check(_, status, response):
            self.assertEqual(status, 502, response)
            self.assertEqual(response["result"]["error"], "The action exhausted its memory and was aborted.")

        self.of_each(check, "memory")

    def test_a_jvm_that_exits_is_a_developer_error(self):
        _, status, response = self.attack("java", "exit")
        unexpected = "The action did not produce a valid response and exited unexpectedly."
        self.assertEqual((status, response["result"]["error"]), (502, unexpected))


if __name__ == "__main__":
    unittest.main()
