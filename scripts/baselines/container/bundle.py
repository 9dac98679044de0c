"""Makes DATA_DIR/bundle, an OCI bundle that reads params from standard input and writes the function's answer.

bundle.py DATA_DIR FILE         FILE lies in DATA_DIR
bundle.py --probe DATA_DIR      DATA_DIR/probe, a bundle with the same root that does nothing, after that

The root is the host's /usr, read-only, and what else an interpreter looks for; its limits are those of a function of 512 MB.
"""

import json
import os
import shutil
import sys
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
    if file.endswith(".js"):
        return [interpreter("node"), "-e", NODE, file]
    return [interpreter("python3"), "-c", PYTHON, file]


def interpreter(name):
    """One below /usr, for nothing else of the host is in the container."""
    path = shutil.which(name, path="/usr/bin:/usr/local/bin") or sys.exit(f"there is no {name} below /usr")
    return os.path.realpath(path)


def bind(source, target, *more):
    return {"destination": target, "type": "bind", "source": str(source), "options": ["rbind", "ro", "nosuid", "nodev", *more]}


def config(data, file):
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": 65534, "gid": 65534},
            "args": command(file),
            "env": ["PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/tmp"],
            "cwd": "/tmp",
            "capabilities": {name: [] for name in ("bounding", "effective", "permitted", "ambient")},
            "noNewPrivileges": True,
        },
        "root": {"path": "root", "readonly": True},
        "hostname": "function",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777", "size=256m"]},
            bind("/usr", "/usr"),
            bind(data / "code", "/function"),
        ],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")],
            "resources": {"memory": {"limit": MEMORY}, "pids": {"limit": 64}},
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/sysrq-trigger"],
            "readonlyPaths": ["/proc/sys", "/proc/irq", "/proc/bus"],
        },
    }


def probe(data):
    data = Path(data)
    said = json.loads((data / "bundle" / "config.json").read_text())
    said["process"]["args"] = ["/usr/bin/true"]
    said["root"]["path"] = str(data / "bundle" / "root")
    (data / "probe").mkdir()
    (data / "probe" / "config.json").write_text(json.dumps(said))


def main(data, file):
    data = Path(data)
    (data / "code").mkdir()
    shutil.move(data / file, data / "code" / file)
    # The containers' user, nobody, reads the function whatever this account's umask is.
    (data / "code").chmod(0o755)
    (data / "code" / file).chmod(0o644)
    root = data / "bundle" / "root"
    root.mkdir(parents=True)
    for folder in ("proc", "dev", "tmp", "usr", "function", "etc"):
        (root / folder).mkdir()
    for name in ("bin", "lib", "lib64", "sbin"):
        host = Path("/", name)
        if host.is_symlink():
            (root / name).symlink_to(os.readlink(host))
    cache = Path("/etc/ld.so.cache")
    if cache.exists():
        shutil.copy(cache, root / "etc" / "ld.so.cache")
    (data / "bundle" / "config.json").write_text(json.dumps(config(data, file), indent=1))


if sys.argv[1] == "--probe":
    probe(sys.argv[2])
else:
    main(*sys.argv[1:])
