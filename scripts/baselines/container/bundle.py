"""OCI bundles for functions: the host's /usr, read-only, what else an interpreter looks for, and the limits of a function of 512 MB.

BASELINE_PYTHON and BASELINE_NODE name the Python and the Node.js that functions run in, where they are to be others than those below /usr:
what they consist of is bound too.

bundle.py DATA_DIR FILE         DATA_DIR/bundle: reads params from standard input and writes the function's answer; FILE lies in DATA_DIR
bundle.py --probe DATA_DIR      DATA_DIR/probe, a bundle with the same root that does nothing, after that
"""

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

MEMORY = 512 << 20
NODE = """
const { main } = require('/function/' + process.argv[1]);
(async () => {
  const params = JSON.parse(require('node:fs').readFileSync(0, 'utf8'));
  process.stdout.write(JSON.stringify(await main(params)));
})();
"""
PYTHON = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("function", "/function/" + sys.argv[1])
function = importlib.util.module_from_spec(spec)
spec.loader.exec_module(function)
print(json.dumps(function.main(json.load(sys.stdin))))
"""


def command(file):
    """One call: params on standard input, the answer on standard output."""
    if not file.endswith(".py"):
        return [interpreter("node"), "-e", NODE, file]
    return [interpreter("python3"), "-c", PYTHON, file]


CHOSEN = {"node": "BASELINE_NODE", "python3": "BASELINE_PYTHON"}


def interpreter(name):
    """The chosen one, or one below /usr: nothing else of the host is in the container."""
    chosen = os.environ.get(CHOSEN[name])
    if chosen:
        return os.path.realpath(chosen)
    path = shutil.which(name, path="/usr/bin:/usr/local/bin") or sys.exit(f"there is no {name} below /usr")
    return os.path.realpath(path)


@cache
def installations():
    """What has to be bound of the chosen interpreters: a folder for Python, the program for Node.js, which is one file."""
    python, node = (os.environ.get(CHOSEN[name]) for name in ("python3", "node"))
    parts = []
    if python:
        parts.append(subprocess.check_output([python, "-I", "-c", "import sys; print(sys.base_prefix)"], text=True).strip())
    if node:
        parts.append(os.path.realpath(node))
    return [part for part in parts if not Path(part).is_relative_to("/usr")]


def bind(source, target, access="ro"):
    return {"destination": target, "type": "bind", "source": str(source), "options": ["rbind", access, "nosuid", "nodev"]}


def config(data, args, mounts=(), memory=MEMORY, processes=64):
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": 65534, "gid": 65534},
            "args": args,
            "env": ["PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/tmp"],
            "cwd": "/tmp",
            "capabilities": {name: [] for name in ("bounding", "effective", "permitted", "ambient")},
            "noNewPrivileges": True,
        },
        "root": {"path": str(data / "root"), "readonly": True},
        "hostname": "function",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777", "size=256m"]},
            bind("/usr", "/usr"),
            *[bind(part, part) for part in installations()],
            bind(data / "code", "/function"),
            *mounts,
        ],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")],
            "resources": {"memory": {"limit": memory}, "pids": {"limit": processes}},
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/sysrq-trigger"],
            "readonlyPaths": ["/proc/sys", "/proc/irq", "/proc/bus"],
        },
    }


def write(folder, said):
    """A bundle in `folder`."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(said, indent=1))


def prepare(data, file):
    """What bundles share: DATA_DIR/code with the function, which leaves DATA_DIR, and DATA_DIR/root."""
    (data / "code").mkdir()
    shutil.move(data / file, data / "code" / file)
    # Readable by the containers' user, nobody, whatever this account's umask.
    (data / "code").chmod(0o755)
    for path in [data / "code" / file, *(data / "code" / file).rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    root = data / "root"
    root.mkdir()
    for folder in ("proc", "dev", "tmp", "usr", "function", "runtime", "socket", "etc"):
        (root / folder).mkdir()
    for name in ("bin", "lib", "lib64", "sbin"):
        host = Path("/", name)
        if host.is_symlink():
            (root / name).symlink_to(os.readlink(host))
    cache = Path("/etc/ld.so.cache")
    if cache.exists():
        shutil.copy(cache, root / "etc" / "ld.so.cache")


def main():
    if sys.argv[1] == "--probe":
        data = Path(sys.argv[2])
        return write(data / "probe", config(data, ["/usr/bin/true"]))
    data, file = Path(sys.argv[1]), sys.argv[2]
    prepare(data, file)
    write(data / "bundle", config(data, command(file)))


if __name__ == "__main__":
    main()
