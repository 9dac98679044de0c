"""numba's cache directory is in /tmp, and each clone has a /tmp of its own: without its folders a function that numba compiles there fails."""

import os
import sys

DEFAULT = "/tmp/numba"
"""Beside the code, where numba would write, nothing can be written."""


def folders():
    """At the freeze: what numba has made."""
    config = sys.modules.get("numba.core.config")
    directory = getattr(config, "CACHE_DIR", None)
    if not directory:
        return []
    return [directory] + [os.path.join(folder, name) for folder, names, _ in os.walk(directory) for name in names]


def make(wanted):
    """In a clone."""
    for folder in wanted:
        try:
            os.mkdir(folder, 0o700)
        except OSError:
            pass  # it is there, or the function has chosen a place that nobody can write to
