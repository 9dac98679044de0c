"""Packages from PyPI that tests need, kept from run to run."""

import subprocess
import sys
from pathlib import Path


def packages_with(test, name):
    """A directory with this package for this interpreter, kept from run to run."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    packages = Path.home() / ".cache/flint-test-venv" / f"{name}-{version}"
    if not (packages / name).is_dir():
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:",
                               "--target", str(packages), name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            print(f"{name} could not be installed for Python {version}, so its part is not tested:\n{done.stdout}", file=sys.stderr)
            test.skipTest(f"{name} could not be installed")
    return str(packages)
