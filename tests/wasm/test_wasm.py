"""Functions in WebAssembly through the real command line and server. tests/wasm/run.sh brings the toolchains and calls this."""

import base64
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "harness"))

from flint_server import FLINT, GUEST, Server, assert_nothing_left  # noqa: E402

SERVER = None
SCRATCH = None


def setUpModule():
    global SERVER, SCRATCH
    SCRATCH = tempfile.TemporaryDirectory(prefix="flint-wasm-")
    # CPython in a component is 18 MB to compile, on a machine that may have other things to do.
    SERVER = Server(settings={"FLINT_WASM__COMPILE_TIMEOUT": "5min", "FLINT_WASM__HTTP_0_3": "true"}).start()


def tearDownModule():
    SERVER.stop()
    assert_nothing_left(SERVER)
    SERVER.remove()
    SCRATCH.cleanup()


class Cli(unittest.TestCase):
    """Commands, and what they say."""

    def flint(self, *arguments, code=0, env=None, stdin=b""):
        done = SERVER.cli(*map(str, arguments), input=stdin) if env is None else self.elsewhere(arguments, env)
        said = f"flint {' '.join(map(str, arguments))} -> {done.returncode}\n{done.stdout.decode()}\n{done.stderr.decode()}"
        self.assertEqual(done.returncode, code, f"{said}\n{SERVER.log_text() if done.returncode not in (code, 5) else ''}")
        return done

    def elsewhere(self, arguments, env):
        """The same in another environment."""
        import subprocess

        environment = {**os.environ, "FLINT_URL": SERVER.url, **env}
        return subprocess.run([FLINT, *map(str, arguments)], env=environment, capture_output=True, timeout=900)

    def deploy(self, path, *options, name=None, env=None):
        named = ["--name", name] if name else []
        deployed = json.loads(self.flint("deploy", path, "--json", *named, *options, env=env).stdout)["function"]
        strategy = {key: deployed["strategy"][key] for key in ("isolation", "start", "reuse")}
        self.assertEqual(strategy, {"isolation": "wasm", "start": "instantiate", "reuse": "never"})
        return deployed

    def call(self, name, *options, code=0, stdin=b""):
        return self.flint("invoke", name, *options, code=code, stdin=stdin).stdout

    def logs(self, name):
        return self.flint("logs", name, "-n", 1).stdout.decode()


class Languages(Cli):
    """A new project of each language, as its README says."""

    def project(self, lang, contract):
        directory = Path(SCRATCH.name) / f"my-{lang}"
        told = self.flint("init", "--lang", lang, directory).stdout.decode()
        self.assertIn(f"flint deploy {directory}", told)
        done = self.flint("deploy", directory)
        self.assertIn("note: built from", done.stderr.decode())
        name = directory.name
        shown = json.loads(self.flint("get", name, "--json").stdout)
        self.assertEqual((shown["kind"], shown["contract"]), ("wasm", contract))
        self.assertEqual(json.loads(self.call(name, "-P", directory / "event.json")), {"greeting": "Hello, you!"})
        self.assertIn("called by you", self.logs(name))
        self.assertEqual(json.loads(self.call(name)), {"greeting": "Hello, world!"})
        greeting = json.loads(self.call(name, "-p", "name=Zoë ☃"))["greeting"]
        self.assertEqual(greeting, "Hello, Zoë ☃!")
        # Clients of OpenWhisk see a function like any other.
        status, record = SERVER.invoke(name, {"name": "wsk"})
        self.assertEqual((status, record["response"]["result"]), (200, {"greeting": "Hello, wsk!"}))

    def test_rust(self):
        self.project("rust", "wasm-core")

    def test_go(self):
        self.project("go", "wasi-command")

    def test_c(self):
        self.project("c", "wasm-core")

    def test_javascript(self):
        self.project("js", "wasi-command")

    def test_python(self):
        self.project("python", "wasi-command")

    def test_java(self):
        self.project("java", "wasi-command")


class Rust(Cli):
    """The other ways of Rust."""

    def test_a_program_runs_as_a_module_and_as_a_component(self):
        for target in ("wasm32-wasip1", "wasm32-wasip2"):
            with self.subTest(target):
                sample = ROOT / "functions/wasm/rust-command"
                deployed = self.deploy(sample, name=target, env={"CARGO_BUILD_TARGET": target})
                self.assertEqual(deployed["contract"], "wasi-command")
                text = b"one two\nthree\n"
                answer = json.loads(self.call(target, "-f", "-", stdin=text))
                self.assertEqual(answer, {"lines": 2, "words": 3, "bytes": len(text)})
                self.assertIn("14 bytes came in", self.logs(target))

    def test_an_http_handler_sees_the_request_and_sets_the_response(self):
        deployed = self.deploy(ROOT / "functions/wasm/rust-http", name="shout")
        self.assertEqual(deployed["contract"], "wasi-http")
        body = b"quiet " * 50_000
        answer = SERVER.request("POST", "/v1/functions/shout/invoke?a=b", body, {"Content-Type": "text/plain"})
        self.assertEqual((answer.status, answer.headers["content-type"]), (200, "text/plain"))
        self.assertIn("a=b", answer.headers["x-path"])
        self.assertEqual(answer.body, body.upper())


class CallsBack(Cli):
    """The way to the API, from a component with no other grant."""

    API = "/api/v1/namespaces/_/actions/"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.module = Path(SCRATCH.name) / "caller.wasm"

    def building(self, name):
        """The environment of a build that leaves nothing in the repository."""
        return {"CARGO_BUILD_TARGET": "wasm32-wasip2", "CARGO_TARGET_DIR": str(Path(SCRATCH.name) / f"{name}-target")}

    def caller(self, name, *options):
        """A function that sends what it is told to; built once."""
        source = self.module if self.module.exists() else ROOT / "tests/wasm/functions/caller"
        env = self.building("caller")
        self.deploy(source, *options, name=name, env=env)
        if not self.module.exists():
            built = Path(SCRATCH.name) / "caller-target/wasm32-wasip2/release/caller.wasm"
            self.module.write_bytes(built.read_bytes())

    def tell(self, name, **told):
        return json.loads(self.call(name, "-P", "-", stdin=json.dumps(told).encode()))

    def test_it_calls_another_function_and_nothing_but_the_api(self):
        self.deploy(ROOT / "functions/wasm/rust-hello", name="greeted")
        self.caller("calls", "--annotation", "provide-api-key=true")
        greeted = self.API + "greeted?blocking=true&result=true"
        said = self.tell("calls", path=greeted, body={"name": "gate"})
        self.assertEqual((said.get("status"), said.get("said")), (200, {"greeting": "Hello, gate!"}), said)
        self.assertEqual(said["host"], "http://127.0.0.1:3233")
        self.assertTrue(said["key"].startswith(GUEST + "."), "its caller's key, with the activation behind it")
        again = self.API + "calls?blocking=true&result=true"
        said = self.tell("calls", path=again, body={"path": greeted, "body": {"name": "chain"}})
        self.assertEqual(said["said"]["said"], {"greeting": "Hello, chain!"}, said)
        said = self.tell("calls", path=self.API + "none?blocking=true", body={})
        self.assertEqual(said["status"], 404, said)

        for what, path, status in [
            ("the native API", "/v1/functions", 404),
            ("metrics", "/metrics", 404),
            ("a web action", "/api/v1/web/guest/default/greeted.json", 404),
        ]:
            with self.subTest(what):
                self.assertEqual(self.tell("calls", path=path)["status"], status)
        self.assertEqual(self.tell("calls", path=self.API + "greeted", key="no:key")["status"], 401)
        made = self.flint("namespace", "create", "neighbour", "--data-dir", SERVER.data_dir)
        other = made.stdout.decode().strip()
        self.assertEqual(SERVER.request("GET", self.API.rstrip("/"), auth=other).status, 200, "the key is a good one")
        said = self.tell("calls", path=self.API.rstrip("/"), key=other)
        self.assertEqual(said["status"], 403, said)

    def test_a_component_for_0_3_reaches_it_too(self):
        source, env = ROOT / "tests/wasm/functions/forwarder", self.building("forwarder")
        deployed = self.deploy(source, "--annotation", "provide-api-key=true", name="forwards", env=env)
        self.assertEqual(deployed["contract"], "wasi-http")

        def ask(path, key, **headers):
            credentials = "Basic " + base64.b64encode(key.encode()).decode()
            headers = {"x-credentials": credentials, "Content-Type": "text/plain", **headers}
            return SERVER.request("POST", f"/v1/functions/forwards/invoke{path}", b"", headers)

        answer = ask("/api/v1/namespaces", GUEST)
        self.assertEqual((answer.status, answer.json()), (200, ["guest"]), answer)
        self.assertEqual(ask("/api/v1/namespaces", "no:key").status, 401)
        self.assertEqual(ask("/v1/functions", GUEST).status, 404)
        refused = ask("/any", GUEST, **{"x-host": f"http://127.0.0.1:{SERVER.port}"})
        self.assertEqual(refused.status, 502, refused)
        self.assertIn("HttpRequestDenied", refused.body.decode())

    def test_other_addresses_of_this_host_are_not_reached(self):
        self.caller("wanders", "--annotation", "provide-api-key=true", "--allow-host", "*", "--allow-host", f"*:{SERVER.port}")
        for host in (SERVER.url, f"http://localhost:{SERVER.port}", "http://localhost:3233", "http://127.0.0.2:3233", "http://127.0.0.1:1"):
            with self.subTest(host):
                refused = self.tell("wanders", host=host, path="/")["refused"]
                self.assertRegex(refused, "HttpRequestDenied|DestinationIpProhibited")

    def test_without_the_annotation_there_is_neither_key_nor_way(self):
        self.caller("keyless", "--allow-host", "*", "--allow-host", "*:3233")
        said = self.tell("keyless", path=self.API.rstrip("/"), host="http://127.0.0.1:3233", key=GUEST)
        self.assertRegex(said["refused"], "DestinationIpProhibited")
        said = self.tell("keyless", path=self.API.rstrip("/"))
        self.assertNotIn("status", said, "the address that it is told is the server's own, which it does not reach")


class Snapshots(Cli):
    """Handlers are built into a component after they were loaded: what each call must have of its own, it has."""

    def distinct(self, name):
        before = time.time() * 1000
        first, second = (json.loads(self.call(name)) for _ in range(2))
        self.assertEqual((first["calls"], second["calls"]), (1, 1))
        values = [*first["random"], *second["random"]]
        self.assertEqual(len(set(values)), len(values), values)
        self.assertLess(before - 60_000, first["now"])

    def test_javascript(self):
        self.deploy(HERE / "functions/random.js", "--isolation", "wasm", name="random-js")
        self.distinct("random-js")
        self.call("random-js", "-p", "fail=now", code=1)
        self.assertIn("asked to fail: now", self.logs("random-js"))
        self.assertEqual(json.loads(self.call("random-js", "-p", "later=true")), {"later": True})

    def javascript_that_waits(self, name, tool=None):
        project = Path(SCRATCH.name) / name
        (project / "lib").mkdir(parents=True)
        (project / "index.mjs").write_text((HERE / "functions/waits.mjs").read_text())
        (project / "lib/pause.mjs").write_text("export const pause = (ms) => new Promise((done) => setTimeout(done, ms));\n")
        if tool:
            (project / "node_modules/.bin").mkdir(parents=True)
            (project / "node_modules/.bin" / Path(tool).name).symlink_to(tool)
        self.deploy(project, "--isolation", "wasm")
        self.distinct(name)
        self.call(name, "-p", "fail=later", code=1)
        self.assertIn("asked to fail: later", self.logs(name))

    def test_javascript_that_waits(self):
        self.javascript_that_waits("waits")

    @unittest.skipUnless(os.environ.get("FLINT_TEST_STARLING"), "StarlingMonkey is 400 MB: set FLINT_TEST_STARLING=1 to have it installed and tested")
    def test_javascript_that_waits_in_starlingmonkey(self):
        self.javascript_that_waits("waits-too", os.environ["FLINT_TEST_COMPONENTIZE_JS"])

    def test_javascript_from_several_commonjs_modules(self):
        project = Path(SCRATCH.name) / "bundled"
        (project / "node_modules/punctuation").mkdir(parents=True)
        (project / "node_modules/punctuation/index.js").write_text("module.exports = '!';\n")
        (project / "shout.js").write_text("exports.shout = (text) => text.toUpperCase() + require('punctuation');\n")
        (project / "index.js").write_text("const { shout } = require('./shout');\nexports.main = ({ text }) => ({ text: shout(text) });\n")
        self.deploy(project, "--isolation", "wasm")
        self.assertEqual(json.loads(self.call("bundled", "-p", "text=quiet")), {"text": "QUIET!"})

    def test_javascript_with_a_package(self):
        project = Path(SCRATCH.name) / "packaged"
        package = project / "node_modules/marks"
        package.mkdir(parents=True)
        (package / "package.json").write_text('{"type": "module", "exports": {".": {"import": "./marks.js"}}}')
        (package / "marks.js").write_text("export const mark = '!';\nexport const later = async () => mark;\n")
        (project / "index.mjs").write_text("import { later, mark } from 'marks';\nexport const main = ({ wait }) => (wait ? later().then((mark) => ({ mark })) : { mark });\n")
        self.deploy(project, "--isolation", "wasm")
        for wait in ("true", "false"):
            self.assertEqual(json.loads(self.call("packaged", "-p", f"wait={wait}")), {"mark": "!"})
        # Without esbuild it works as far as it does not wait.
        tools = Path(SCRATCH.name) / "without-esbuild"
        tools.mkdir()
        for tool in ("componentize-qjs", "node"):
            (tools / tool).symlink_to(shutil.which(tool))
        self.deploy(project, "--isolation", "wasm", name="untranslated", env={"PATH": f"{tools}:/bin"})
        self.assertEqual(json.loads(self.call("untranslated", "-p", "wait=false")), {"mark": "!"})
        self.call("untranslated", "-p", "wait=true", code=1)
        self.assertIn("install esbuild", self.logs("untranslated"))

    def test_python(self):
        self.deploy(HERE / "functions/random.py", "--isolation", "wasm", name="random-py")
        self.distinct("random-py")
        self.assertEqual(json.loads(self.call("random-py", "-p", "later=true")), {"later": True})
        self.call("random-py", "-p", "fail=now", code=1)
        self.assertIn("ValueError: asked to fail: now", self.logs("random-py"))

    def test_c_starts_anew_each_time(self):
        self.deploy(HERE / "functions/counter.c")
        for _ in range(3):
            self.assertEqual(json.loads(self.call("counter")), {"calls": 1})
        failed = self.call("counter", "-p", "text=!", code=1)
        self.assertIn(b"no exclamation marks", failed)

    def test_a_c_program_reads_standard_input(self):
        self.assertEqual(self.deploy(HERE / "functions/program.c")["contract"], "wasi-command")
        self.assertEqual(self.call("program", "-f", "-", stdin=b"shout\n" * 1000), b"SHOUT\n" * 1000)


class EventLoop(Cli):
    """JavaScript that waits, in QuickJS: functions/asynchronous.mjs says what each call does."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        path = HERE / "functions/asynchronous.mjs"
        cls().deploy(path, "--isolation", "wasm", name="asynchronous")

    def answer(self, what):
        return json.loads(self.call("asynchronous", "-p", f"what={what}"))

    def fails(self, what):
        self.call("asynchronous", "-p", f"what={what}", code=1)
        return self.logs("asynchronous")

    def test_a_timer_takes_its_time(self):
        self.assertGreaterEqual(self.answer("pause")["milliseconds"], 49)

    def test_timers_run_side_by_side(self):
        said = self.answer("together")
        self.assertEqual(said, {"ended": ["a", "b", "c"], "values": ["c", "a", "b"]})

    def test_generators_wait(self):
        self.assertEqual(self.answer("generator"), {"items": [1, 2, 3], "closed": True, "array": [10, 20, 30]})

    def test_jobs_run_in_the_order_of_the_language(self):
        self.assertEqual(self.answer("order"), {"order": ["synchronous", "job 1", "job 2", "job 3", "timer", "immediate"]})

    def test_modules_are_imported_when_they_are_asked_for(self):
        self.assertEqual(self.answer("import"), {"imported": "when asked for"})

    def test_what_loading_has_left_is_done(self):
        self.assertEqual(self.answer("loaded"), {"job": True, "timer": True})

    def test_what_is_left_at_the_end_is_dropped(self):
        self.assertEqual(self.answer("dropped"), {"answered": True})
        self.assertNotIn("too late", self.logs("asynchronous"))

    def test_a_rejection_is_an_error_of_the_function(self):
        self.assertIn("Error: rejected later", self.fails("rejected"))
        self.assertIn("Error: thrown by a timer", self.fails("thrown"))

    def test_a_rejection_that_nobody_handles_is_told(self):
        self.assertEqual(self.answer("alone"), {"answered": True})
        self.assertRegex(self.logs("asynchronous"), "nothing handled it: Error: alone")

    def test_a_promise_that_never_settles_is_told(self):
        self.assertIn("the handler's promise never settles", self.fails("never"))

    def test_a_promise_of_the_engine_is_told(self):
        self.assertIn("this promise is QuickJS's own", self.fails("native"))
        hidden = Path(SCRATCH.name) / "hidden.mjs"
        hidden.write_text("export const main = () => new globalThis['Prom' + 'ise'](() => {});\n")
        self.deploy(hidden, "--isolation", "wasm")
        self.call("hidden", code=1)
        self.assertIn("was built without an event loop", self.logs("hidden"))


class JavaFaas(Cli):
    """The six programs give the answers that others computed."""

    def test_oracles(self):
        folder = ROOT / "functions/java-faas"
        for name, oracle in json.loads((folder / "oracles.json").read_text()).items():
            with self.subTest(name):
                self.deploy(folder / f"build/{name}.wasm", name=f"faas-{name}")
                size = ["-p", f"n={oracle['n']}"] if "n" in oracle else []
                out = Path(SCRATCH.name) / f"{name}.out"
                self.call(f"faas-{name}", *size, "-o", out)
                answer = out.read_bytes()
                self.assertEqual((len(answer), hashlib.sha256(answer).hexdigest()), (oracle["bytes"], oracle["sha256"]))


class Refusals(Cli):
    """What stands in the way is named, with the way out."""

    def refused(self, code, path, *parts, options=(), env=None):
        said = self.flint("deploy", path, *options, code=code, env=env).stderr.decode()
        for part in parts:
            self.assertIn(part, said)

    def source(self, name, text):
        path = Path(SCRATCH.name) / "refused" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def test_a_missing_toolchain_is_named_with_its_installation(self):
        empty = Path(SCRATCH.name) / "empty"
        empty.mkdir(exist_ok=True)
        nothing = {"PATH": str(empty), "WASI_SDK_PATH": ""}
        samples = ROOT / "functions/wasm"
        for sample, what, install in [
            ("rust-hello", "there is no cargo", "rust-lang.org/tools/install"),
            ("c-hello", "there is no clang", "apt-get install clang lld wasi-libc libclang-rt-dev-wasm32"),
            ("java-hello", "there is no Maven", "apt-get install maven"),
            ("python-hello", "there is no componentize-py", "pip install componentize-py"),
        ]:
            with self.subTest(sample):
                self.refused(5, samples / sample, f"cannot build {samples / sample}: {what}", install, env=nothing)
        alone = self.source("alone.js", "export const main = () => 1;\n")
        self.refused(5, alone, "there is no componentize-qjs", "npm install", options=["--isolation", "wasm"], env=nothing)
        several = self.source("several.js", "const x = require('./x');\nexports.main = () => x;\n")
        tool = Path(SCRATCH.name) / "one-tool"
        tool.mkdir(exist_ok=True)
        (tool / "componentize-qjs").write_text("#!/bin/sh\n")
        (tool / "componentize-qjs").chmod(0o755)
        env = {"PATH": str(tool)}
        self.refused(5, several, "there is no esbuild", "npm install --save-dev esbuild", options=["--isolation", "wasm"], env=env)
        waiting = self.source("waiting.mjs", "export const main = async () => 1;\n")
        told = ("waiting.mjs is asynchronous, and there is no esbuild", "npm install --save-dev esbuild")
        self.refused(5, waiting, *told, options=["--isolation", "wasm"], env=env)
        # A target that Rust knows and nobody here has.
        other = "wasm32-unknown-emscripten"
        env = {"CARGO_BUILD_TARGET": other}
        self.refused(5, samples / "rust-command", f"the Rust target {other} is not installed", f"rustup target add {other}", env=env)

    def test_source_that_does_not_compile_is_shown_with_the_compilers_words(self):
        broken = self.source("broken.c", "int main(void) { return missing; }\n")
        self.refused(2, broken, "building", "broken.c:1:25: error", "missing")
        wrong = self.source("wrong.mjs", "export const other = 1;\n")
        self.refused(2, wrong, "no function called main or handler: it exports other", options=["--isolation", "wasm"])
        early = self.source("early.mjs", "const x = await 1;\nexport const main = () => x;\n")
        self.refused(2, early, "early.mjs:1:10", "Top-level await is not available", options=["--isolation", "wasm"])
        rejected = self.source("rejected.mjs", "Promise.reject(new Error('while loading'));\nexport const main = () => 1;\n")
        self.refused(2, rejected, "while loading", options=["--isolation", "wasm"])
        import_error = self.source("wrong.py", "import numpie\n")
        self.refused(2, import_error, "No module named 'numpie'", options=["--isolation", "wasm"])

    def test_a_build_that_takes_too_long_is_ended(self):
        options = ["--build-timeout", "1ms"]
        self.refused(5, ROOT / "functions/wasm/java-hello", "took longer than 1ms", "--build-timeout", options=options)

    def test_a_project_is_not_written_over_another(self):
        directory = Path(SCRATCH.name) / "taken"
        self.flint("init", "--lang", "c", directory)
        said = self.flint("init", "--lang", "go", directory, code=2).stderr.decode()
        self.assertIn("is not empty", said)


if __name__ == "__main__":
    unittest.main()
