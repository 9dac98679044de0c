"""Runs functions directly: each in its language's interpreter, under Flint's own shim, without a sandbox or a server."""

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import stand_ins
from manifest import FUNCTIONS

RUNTIMES = FUNCTIONS.parent / "runtimes"
sys.path.insert(0, str(RUNTIMES / "conformance"))
from peer import Peer  # noqa: E402
from shims import JVM_FLAGS, JVM_OPENS  # noqa: E402

AUTH = "direct:direct"


class Missing(Exception):
    """What this machine lacks to run a function."""


class Direct:
    """The functions of one variant, and a gateway through which they call each other."""

    def __init__(self, workload, variant, scratch, jar):
        self.workload, self.variant, self.scratch, self.jar = workload, variant, Path(scratch), jar
        self.functions = {function["name"]: function for function in variant["functions"]}
        self.sequences = variant.get("sequences", {})
        self.started, self.idle, self.commands = [], {}, {}
        self.lock = threading.Lock()
        self.gateway = stand_ins.Server(self.handler())
        self.values = {"gateway": {"url": self.gateway.url, "auth": AUTH}}

    def close(self):
        self.gateway.close()
        for peer in self.started:
            peer.close()

    def call(self, name, params):
        if name in self.sequences:
            for part in self.sequences[name]:
                params = self.call(part, params)
            return params
        function = self.functions[name]
        if function["kind"] in ("native", "wasm"):
            return self.run_program(function, params)
        peer = self.take(function)
        answer = peer.invoke(params)
        if answer.error is not None:
            raise RuntimeError(f"{name}: {answer.error}\n{peer.stderr[-2000:]}")
        with self.lock:
            self.idle.setdefault(name, []).append(peer)
        return json.loads(answer.body)

    def take(self, function):
        with self.lock:
            waiting = self.idle.get(function["name"])
            if waiting:
                return waiting.pop()
            code = self.compiled(function) if function["kind"] == "java" else self.workload.folder / function["code"]
            peer = Peer(self.argv(function["kind"]), timeout_s=300)
            self.started.append(peer)
        peer.start(code, function.get("main", "main"), env=self.workload.env(function, self.values), name=function["name"])
        return peer

    def argv(self, kind):
        if kind == "nodejs":
            return [needed("node"), str(RUNTIMES / "nodejs/shim.js")]
        if kind == "python":
            return [sys.executable, "-X", "utf8", "-s", str(RUNTIMES / "python/shim.py")]
        return [needed("java"), *JVM_FLAGS, *JVM_OPENS, "-cp", str(self.jar()), "flint.Shim"]

    def compiled(self, function):
        source = self.workload.folder / function["code"]
        classes = self.scratch / f"{function['name']}-classes"
        if source.suffix != ".java":
            return source
        if not classes.exists():
            classes.mkdir()
            compile_java([source], classes, self.jar())
        return classes

    def run_program(self, function, params):
        """A program with the request on standard input. What is compiled into WebAssembly from Java is run by the JVM."""
        if function.get("contract") == "http":
            raise Missing(f"{function['name']} is a server of its own, which this does not start")
        if function["kind"] == "native":
            code = self.workload.folder / function["code"]
            program = code / "exec" if code.is_dir() else code
            if not program.exists():
                raise Missing(f"{function['code']} is not built")
            command = [str(program)]
        else:
            classes = self.scratch / f"{self.workload.suite}-classes"
            with self.lock:
                if not classes.exists():
                    classes.mkdir()
                    sources = [path for path in (self.workload.folder.parent / "src/main/java").glob("*.java") if path.name != "Stdin.java"]
                    compile_java([*sources, Path(__file__).parent / "jvm" / "Stdin.java"], classes)
            command = [needed("java"), "-cp", str(classes), function["jvm_main"]]
        done = subprocess.run(command, input=json.dumps(params).encode(), capture_output=True, timeout=300)
        if done.returncode:
            raise RuntimeError(f"{function['name']} ended with {done.returncode}: {done.stderr[-2000:]!r}")
        return done.stdout

    def handler(self):
        direct = self

        class Handler(stand_ins.Quiet):
            def do_POST(self):
                name = self.path.removeprefix("/v1/functions/").removesuffix("/invoke")
                params = json.loads(self.body())
                if not self.headers.get("authorization", "").startswith("Basic "):
                    return self.answer_json(401, {"error": "no key"})
                try:
                    self.answer_json(200, direct.call(name, params))
                except Exception as error:  # whatever it is, the caller reads it
                    self.answer_json(502, {"error": str(error)})

        return Handler


def needed(program):
    path = shutil.which(program)
    if path is None:
        raise Missing(f"there is no {program}")
    return path


def compile_java(sources, classes, jar=None):
    command = [needed("javac"), "--release", "17", "-d", str(classes), *(["-cp", str(jar)] if jar else []), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)


def runtime_jar(scratch):
    """Makes the shim's jar, once."""
    jar = Path(scratch) / "runtime" / "flint-runtime.jar"
    if not jar.exists():
        needed("javac")
        subprocess.run([RUNTIMES / "java/build.sh", jar.parent], check=True, stdout=subprocess.DEVNULL)
    return jar


# The error pipe of a starting process must not be descriptor 3, which the shim's link takes: keep it occupied.
while os.open(os.devnull, os.O_RDONLY) < 3:
    pass
