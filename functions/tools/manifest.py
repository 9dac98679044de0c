"""Reads a workload's bench.json: what it says, checked; functions/README.md describes the format."""

import base64
import json
import re
from pathlib import Path

FUNCTIONS = Path(__file__).resolve().parent.parent
SIZES = ("test", "small", "large")
FUNCTION_KEYS = {"name", "code", "kind", "main", "jvm_main", "contract", "memory_mb", "timeout_s", "network", "env", "concurrency", "note", "warmup",
                 "calls_itself"}
KEYS = {"name", "suite", "about", "source", "build", "back_ends", "seed", "variants", "sizes", "oracle", "warmup", "notes", "server", "duration", "says"}
SIZE_KEYS = {"params", "expect", "entry", "crowd"}
REFERENCE = re.compile(r"\$\{([a-z0-9_-]+)\.([a-z0-9_]+)\}")


class BadManifest(Exception):
    """What is wrong with a bench.json, and where."""


class Workload:
    """One bench.json."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.path = self.folder / "bench.json"
        try:
            self.said = json.loads(self.path.read_text())
        except (OSError, ValueError) as error:
            raise BadManifest(f"{self.path}: {error}") from None
        self.check()
        self.name, self.suite = self.said["name"], self.said["suite"]
        self.back_ends = self.said.get("back_ends", [])

    def __str__(self):
        return f"{self.suite}/{self.name}"

    def check(self):
        said = self.said
        self.need(not set(said) - KEYS, f"unknown keys {sorted(set(said) - KEYS)}")
        for key in ("name", "suite", "about", "source", "variants", "sizes"):
            self.need(said.get(key), f"there is no {key}")
        self.need((said["suite"], said["name"]) == (self.folder.parent.name, self.folder.name)
                  or (said["suite"], said["name"].split("/")[0]) == (self.folder.name, said["name"]),
                  "suite and name are not those of its folders")
        self.need(set(SIZES) <= set(said["sizes"]), f"sizes lack one of {SIZES}")
        for size in said["sizes"].values():
            self.need(not set(size) - SIZE_KEYS, f"a size with the unknown keys {sorted(set(size) - SIZE_KEYS)}")
            self.need("params" in size, "a size without params")
            self.need(size.get("expect") or said.get("oracle"), "a size with nothing expected")
        warmup = said.get("warmup", {"size": "test"})
        self.need(set(warmup) == {"size"} and warmup["size"] in said["sizes"], f"the warmup {warmup} names more or less than one of the sizes")
        names = [variant["name"] for variant in said["variants"]]
        self.need(len(names) == len(set(names)), "two variants of one name")
        for variant in said["variants"]:
            callable_names = {function["name"] for function in variant["functions"]} | set(variant.get("sequences", {}))
            self.need(variant["entry"] in callable_names, f"the entry {variant['entry']} is none of its functions")
            for parts in variant.get("sequences", {}).values():
                self.need(set(parts) <= callable_names, f"a sequence of unknown functions: {parts}")
            for function in variant["functions"]:
                unknown = set(function) - FUNCTION_KEYS
                self.need(not unknown, f"function {function['name']}: unknown keys {sorted(unknown)}")
                used = {name for value in function.get("env", {}).values() for name, _ in REFERENCE.findall(value)}
                self.need(used <= set(said.get("back_ends", [])), f"function {function['name']} uses {used} without naming it in back_ends")
                self.need(self.is_warmed_up(variant, function), f"function {function['name']} is called by others: its warmup is not that of the workload, and it has none of its own")

    def is_warmed_up(self, variant, function):
        """Whether something says what it is called with before its snapshot is taken, where it has one. What is called itself has the workload's warmup."""
        if function["kind"] not in ("nodejs", "python") or function["name"] == variant["entry"]:
            return True
        events = function.get("warmup")
        return isinstance(events, list) and events != []

    def need(self, condition, what):
        if not condition:
            raise BadManifest(f"{self.path}: {what}")

    def variant(self, name):
        for variant in self.said["variants"]:
            if variant["name"] == name:
                return variant
        raise KeyError(f"{self} has no variant {name}")

    def params(self, size, values=None):
        """The parameters of a size, with files read and the back ends' values put in."""
        return self.filled(self.said["sizes"][size]["params"], values or {})

    def kind(self, function):
        """A function's kind; one with a virtual environment runs on the very version of Python that made that."""
        made_by = self.folder / function["code"] / "virtualenv" / "pyvenv.cfg"
        if not made_by.is_file():
            return function["kind"]
        found = re.search(r"^version\s*=\s*(\d+\.\d+)", made_by.read_text(), re.MULTILINE)
        return f"python:{found[1]}"

    def env(self, function, values=None):
        return self.filled(function.get("env", {}), values or {})

    def filled(self, value, values):
        if isinstance(value, dict):
            if set(value) == {"$file"}:
                return base64.b64encode((self.folder / value["$file"]).read_bytes()).decode()
            return {key: self.filled(item, values) for key, item in value.items()}
        if isinstance(value, list):
            return [self.filled(item, values) for item in value]
        if isinstance(value, str):
            return REFERENCE.sub(lambda found: str(values[found[1]][found[2]]), value)
        return value


def found(select=()):
    """Every workload, or those of which a word of `select` is the suite, the name or suite/name."""
    folders = sorted(path.parent for path in FUNCTIONS.glob("**/bench.json") if "node_modules" not in path.parts)
    workloads = [Workload(folder) for folder in folders]
    return [w for w in workloads if not select or {w.suite, w.name, str(w)} & set(select)]
