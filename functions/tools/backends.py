"""Back ends for functions: the real ones of scripts/backends, or stand-ins."""

import os
import subprocess
import sys
from pathlib import Path

import stand_ins
from manifest import FUNCTIONS

SCRIPTS = FUNCTIONS.parent / "scripts" / "backends"
STAND_INS = {"s3": stand_ins.s3, "couchdb": stand_ins.couchdb}


class Unavailable(Exception):
    """Why a back end is not there; the text is the script's."""


class BackEnds:
    """Started when first asked for, ended with `close`. `real`: none of them is a stand-in. `network`: where functions with egress
    reach them."""

    def __init__(self, scratch, real=False, network=None, extra=None):
        self.scratch, self.real, self.network, self.extra = Path(scratch), real, network, extra or {}
        # A back end may run as another user, who has to reach its own folder.
        self.scratch.chmod(0o711)
        self.values, self.servers, self.folders, self.missing = {}, [], [], {}

    def get(self, name):
        """Its values: url and what else there is."""
        if name in self.missing:
            raise Unavailable(self.missing[name])
        if name not in self.values:
            if not self.real and name in STAND_INS:
                server, self.values[name] = STAND_INS[name]()
                self.servers.append(server)
            else:
                self.values[name] = self.start(name)
        return self.values[name]

    def start(self, name):
        folder = self.scratch / f"backend-{name}"
        options = ["--network", str(self.network)] if self.network else []
        done = subprocess.run([SCRIPTS / name / "start.sh", folder, *options], capture_output=True, text=True,
                              env={**os.environ, **self.extra})
        if done.returncode:
            self.missing[name] = f"{name}: {done.stderr.strip() or done.returncode}"
            raise Unavailable(self.missing[name])
        self.folders.append((name, folder))
        return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)

    def close(self):
        """Ends all of them, also when one does not end as it should; then says which."""
        for server in self.servers:
            server.close()
        wrong = [name for name, folder in reversed(self.folders)
                 if subprocess.run([SCRIPTS / name / "stop.sh", folder]).returncode]
        if wrong:
            raise RuntimeError(f"the back ends {', '.join(wrong)} did not end: end them by hand")


def environment(values):
    """What a seed or an oracle's program finds in its environment: S3_URL and the like."""
    named = {f"{name}_{key}".upper().replace("-", "_"): value for name, keys in values.items() for key, value in keys.items()}
    return {**os.environ, **named}


def seed(workload, size, values):
    command = workload.said.get("seed")
    if not command:
        return
    argv = [sys.executable if part == "python3" else part for part in command]
    done = subprocess.run(argv, cwd=workload.folder, env={**environment(values), "SIZE": size}, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{workload}: seed: {done.stderr.strip()}")
