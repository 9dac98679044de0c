"""Runs the cases of this directory and prints how many passed and failed; exit code 1 when one failed."""

import argparse
import importlib
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from harness import CaseFailed, World

FILES = ["functions", "entities", "snapshots", "calls", "refusals", "following", "server", "disk", "rootless", "tenants", "web", "sequences", "manifests", "versions", "secrets", "output", "bench", "data"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flint", required=True)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    # What runs in the background of a script ignores it, and hands that on to all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    passed, failed = 0, []
    with tempfile.TemporaryDirectory(prefix="flint-cli-") as scratch:
        world = World(Path(options.flint).resolve(), Path(scratch))
        try:
            for file in FILES:
                module = importlib.import_module(f"cases_{file}")
                for name, case in vars(module).items():
                    if not name.startswith("test_") or (options.names and not any(part in name for part in options.names)):
                        continue
                    began = time.monotonic()
                    try:
                        case(world)
                    except Exception as error:  # a case that breaks must not keep the others from running
                        failed.append(name)
                        print(f"FAILED  {name}", flush=True)
                        text = str(error) if isinstance(error, CaseFailed) else traceback.format_exc()
                        print("\n".join(f"        {line}" for line in text.splitlines()), flush=True)
                    else:
                        passed += 1
                        print(f"ok      {name} ({time.monotonic() - began:.1f} s)", flush=True)
        finally:
            world.close()
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
