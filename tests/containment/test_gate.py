"""Functions that attack the server through the gate by which they may call the API, and each other around it."""

import json
import unittest

from flint_server import GUEST, wait_for
from platform_under_attack import LONG, UnderAttack

BOTH = (("fork", "never"), ("spawn", "warm"))
PATIENT = {"timeout_ms": 60000, "memory_mb": 256}

# What attackers have in common: a request as bytes, and what comes back.
PRELUDE = """
import base64, json, os, socket, time
GATE = ("127.0.0.1", 3233)
def say(request, wait=30):
    with socket.create_connection(GATE, timeout=wait) as gate:
        gate.sendall(request if isinstance(request, bytes) else request.encode())
        said = b""
        try:
            while part := gate.recv(65536): said += part
        except OSError: pass
        return said.decode(errors="replace")
def ask(key, path, method="GET", host="127.0.0.1", more="", body=""):
    key = key and "Authorization: Basic " + base64.b64encode(key.encode()).decode() + "\\r\\n"
    said = say(f"{method} {path} HTTP/1.1\\r\\nHost: {host}\\r\\n{key}{more}Connection: close\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n{body}")
    head, _, rest = said.partition("\\r\\n\\r\\n")
    try: return int(head.split(" ")[1]), rest
    except (IndexError, ValueError): return 0, said
def attempt(action):
    try: return action()
    except OSError as error: return type(error).__name__
"""


class Gate(UnderAttack):
    """The attacks, as forks and as fresh processes."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        made = cls.server.cli("namespace", "create", "victims", "--data-dir", str(cls.server.data_dir))
        assert made.returncode == 0, made.stderr
        cls.victim = made.stdout.decode().strip()

    def attack(self, start, reuse, body, params=None, key=True, **options):
        """Deploys `body`, which has a main, and calls it; gives the result."""
        name = f"attacker-{start}"
        fields = {"annotations": {"provide-api-key": key}, "limits": PATIENT, **options}
        prepared = self.deploy(name, "py", PRELUDE + body, start, reuse, **fields)
        self.assertEqual(prepared.get("strategy", {}).get("start"), start, prepared)
        status, response = self.call(name, params)
        self.assertEqual(status, 200, response)
        return response["result"]

    def both(self, check):
        for start, reuse in BOTH:
            with self.subTest(start=start):
                check(start, reuse)

    # --- whom it lets in

    def test_only_the_key_of_the_namespace_that_it_works_for_is_let_in(self):
        body = (
            "def main(params):\n"
            "    list = '/api/v1/namespaces/_/actions'\n"
            "    own = os.environ['__OW_API_KEY']\n"
            "    answers = {'own': ask(own, list)[0], 'bare': ask(own.rpartition('.')[0], list)[0], 'none': ask('', list)[0]}\n"
            "    answers['victim'], text = ask(params['victim'], list)\n"
            "    answers['named'] = ask(own, '/api/v1/namespaces/victims/actions')[0]\n"
            "    answers['wrong'] = ask(own[:40] + 'x' + own[41:], list)[0]\n"
            "    answers['bearer'] = ask('', list, more='Authorization: Bearer ' + own + '\\r\\n')[0]\n"
            "    answers['text'] = json.loads(text)['error']\n"
            "    return answers\n"
        )
        forbidden = "The supplied authentication is not authorized to access this resource."
        expected = {"own": 200, "bare": 200, "none": 401, "victim": 403, "named": 403, "wrong": 401, "bearer": 401, "text": forbidden}
        self.assertEqual(self.server.request("GET", "/api/v1/namespaces/_/actions", auth=self.victim).status, 200, "the key is a good one")
        self.both(lambda start, reuse: self.assertEqual(self.attack(start, reuse, body, {"victim": self.victim}), expected))

    def test_nothing_but_the_api_is_behind_it(self):
        paths = [
            "/", "/v1", "/v1/functions", "/v1/namespaces", "/metrics", "/health", "/ready", "/ping", "/invokers", "/api/v1",
            "/api/v1/web/guest/default/neighbour", "/api/v1/../../v1/functions", "//metrics", "/%6detrics", "http://127.0.0.1/metrics",
            "/api/v1/gateway/x/y", "*", "/api/v1/namespaces/_/../../../../metrics",
        ]
        body = (
            "def main(params):\n"
            "    answers = {}\n"
            "    for path in params['paths']:\n"
            "        for host in ('127.0.0.1', params['host'], 'guest.' + params['host'], 'localhost:3233', 'x' * 300, ''):\n"
            "            for key in ('', os.environ['__OW_API_KEY'], params['operator']):\n"
            "                for method in ('GET', 'POST', 'OPTIONS', 'CONNECT', 'TRACE'):\n"
            "                    status, text = ask(key, path, method, host, 'X-Forwarded-Host: ' + host + '\\r\\n')\n"
            "                    if 0 < status < 400: answers[f'{method} {path} {host[:40]} {key[:8]}'] = f'{status} {text[:100]}'\n"
            "    return answers\n"
        )
        operator = (self.server.data_dir / "operator.json").read_text()
        key = next(part for part in operator.split('"') if len(part) > 40)
        params = {"paths": paths, "host": f"127.0.0.1:{self.server.port}", "operator": key}
        self.assertEqual(self.attack("fork", "never", body, params, limits={**LONG, "memory_mb": 256}), {})

    def test_before_there_is_a_call_nothing_comes_of_anything(self):
        self.server.put("witness", "nodejs:default", "function main() { return {} }")
        fire = f"said = ask('{GUEST}', '/api/v1/namespaces/_/actions/witness', 'POST')\n"
        body = f"early = []\n{fire}early.append(said)\ndef main(params):\n    {fire}    early.append(said)\n    return {{'said': [[status, text] for status, text in early]}}\n"
        said = self.attack("fork", "never", body, warmup=[{}])["said"]
        call, before = said[-1], said[:-1]
        self.assertGreaterEqual(len(before), 2, said)
        for status, text in before:
            self.assertEqual(status, 403, text)
            self.assertIn("not called yet", text)
        self.assertEqual(call[0], 202, call)
        allowed = [json.loads(call[1])["activationId"]]

        def witnessed():
            records = self.server.request("GET", "/api/v1/namespaces/_/activations?name=witness&limit=200").json()
            return [record["activationId"] for record in records]

        wait_for(witnessed, 60, "the one call")
        self.assertEqual(witnessed(), allowed)

    # --- where it is

    def test_one_function_does_not_reach_anothers(self):
        knock = "def main(params):\n    return {'knocked': attempt(lambda: socket.create_connection(GATE, timeout=5) and 'open')}\n"
        hold = "def main(params):\n    time.sleep(3)\n    return {'own': ask(os.environ['__OW_API_KEY'], '/api/v1/namespaces')[0]}\n"
        fields = {"annotations": {"provide-api-key": True}, "limits": PATIENT}
        self.deploy("holder", "py", PRELUDE + hold, "spawn", "warm", **fields)
        for start, reuse in BOTH:
            self.deploy(f"knocker-{start}", "py", PRELUDE + knock, start, reuse, limits=PATIENT, annotations={"provide-api-key": False})
        answers = self.at_once([("holder", {}), ("knocker-fork", {}), ("knocker-spawn", {})])
        self.assertEqual([response["result"] for _, response in answers], [{"own": 200}, {"knocked": "ConnectionRefusedError"}, {"knocked": "ConnectionRefusedError"}])

    def test_nobody_takes_its_place(self):
        """A clone that listened in its stead would be sent its siblings' keys."""
        body = (
            "def take(address, option):\n"
            "    with socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET) as taker:\n"
            "        if option: taker.setsockopt(socket.SOL_SOCKET, option, 1)\n"
            "        if ':' in address: taker.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)\n"
            "        taker.bind((address, 3233))\n"
            "        taker.listen()\n"
            "        return 'taken'\n"
            "def try_all(): return [attempt(lambda: take(address, option)) for address in ('127.0.0.1', '0.0.0.0', '::') for option in (None, socket.SO_REUSEADDR, socket.SO_REUSEPORT)]\n"
            "early = try_all()\n"
            "def main(params): return {'tried': early + try_all()}\n"
        )
        self.both(lambda start, reuse: self.assertEqual(self.attack(start, reuse, body)["tried"], ["OSError"] * 18))

    # --- how much of it

    def test_who_opens_all_the_connections_there_are_stops_nobody_else(self):
        body = (
            "def main(params):\n"
            "    held, failed = [], 0\n"
            "    end = time.monotonic() + params['seconds']\n"
            "    for number in range(10000):\n"
            "        if time.monotonic() > end and number > 600: break\n"
            "        try:\n"
            "            one = socket.socket()\n"
            "            one.setblocking(False)\n"
            "            held.append(one)\n"
            "            one.connect_ex(GATE)\n"
            "            one.send(b'GET / HTTP/1.1\\r\\nx: ')\n"
            "        except BlockingIOError: pass\n"
            "        except OSError: failed += 1\n"
            "    time.sleep(max(0, end - time.monotonic()))\n"
            "    return {'held': len(held), 'failed': failed}\n"
        )
        friend = "def main(params): return {'status': ask(os.environ['__OW_API_KEY'], '/api/v1/namespaces')[0]}\n"
        self.deploy("friend", "py", PRELUDE + friend, "fork", "never", annotations={"provide-api-key": True}, limits=PATIENT)
        for start, reuse in BOTH:
            self.deploy(f"hog-{start}", "py", PRELUDE + body, start, reuse, annotations={"provide-api-key": True}, limits=PATIENT)
        calls = [(f"hog-{start}", {"seconds": 5}) for start, _ in BOTH for _ in range(2)]
        answers = self.at_once(calls + [("friend", {})] * 8 + [("neighbour", {"n": 1})])
        for status, response in answers[: len(calls)]:
            self.assertEqual(status, 200, response)
            self.assertGreater(response["result"]["held"], 500, response)
        self.assertEqual([response["result"] for _, response in answers[len(calls) : -1]], [{"status": 200}] * 8)
        self.assertEqual(self.server.request("GET", "/ready").status, 200)
        # The same function's next call finds its gate as if nothing had been.
        for start, _ in BOTH:
            self.deploy(f"hog-{start}", "py", PRELUDE + friend, start, "never", annotations={"provide-api-key": True}, limits=PATIENT)
            self.assertEqual(self.call(f"hog-{start}")[1]["result"], {"status": 200})

    def test_what_is_no_request_is_let_go(self):
        body = (
            "def main(params):\n"
            "    key = base64.b64encode(os.environ['__OW_API_KEY'].encode()).decode()\n"
            "    head = f'POST /api/v1/namespaces/_/actions/neighbour?blocking=true HTTP/1.1\\r\\nAuthorization: Basic {key}\\r\\n'\n"
            "    tries = {\n"
            "        'noise': os.urandom(1 << 16), 'zeroes': bytes(1 << 16), 'tls': b'\\x16\\x03\\x01' + bytes(512), 'http2': b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n',\n"
            "        'long': b'GET / HTTP/1.1\\r\\nx: ' + b'y' * (1 << 20), 'many': b'GET / HTTP/1.1\\r\\n' + b'x: y\\r\\n' * 10000 + b'\\r\\n',\n"
            "        'smuggled': head + 'Content-Length: 2\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\nGET /metrics HTTP/1.1\\r\\n\\r\\n',\n"
            "        'twice': head + 'Content-Length: 2\\r\\nContent-Length: 3\\r\\n\\r\\n{}', 'negative': head + 'Content-Length: -1\\r\\n\\r\\n{}',\n"
            "        'upgrade': head + 'Connection: Upgrade\\r\\nUpgrade: h2c\\r\\nContent-Length: 2\\r\\n\\r\\n{}',\n"
            "    }\n"
            "    said = {name: attempt(lambda: say(request)) for name, request in tries.items()}\n"
            "    return {'metrics': [name for name, text in said.items() if 'flint_' in text], 'after': ask(os.environ['__OW_API_KEY'], '/api/v1/namespaces')[0]}\n"
        )
        for start, reuse in BOTH:
            with self.subTest(start=start):
                prepared = self.deploy(f"noise-{start}", "py", PRELUDE + body, start, reuse, limits={"timeout_ms": 290000, "memory_mb": 256}, annotations={"provide-api-key": True})
                self.assertEqual(prepared["strategy"]["start"], start, prepared)
                _, record = self.record(f"noise-{start}")
                self.assertEqual(record["response"]["result"], {"metrics": [], "after": 200}, record)

    def test_bodies_have_their_bounds(self):
        body = (
            "def main(params):\n"
            "    key = os.environ['__OW_API_KEY']\n"
            "    large = json.dumps({'x': 'y' * (2 << 20)})\n"
            "    return {'large': ask(key, '/api/v1/namespaces/_/actions/neighbour', 'POST', more='Content-Type: application/json\\r\\n', body=large)[0]}\n"
        )
        self.both(lambda start, reuse: self.assertEqual(self.attack(start, reuse, body), {"large": 413}))


if __name__ == "__main__":
    unittest.main()
