"""Flint's shim for Python functions: one process, one link to Flint, one function.

Contract: docs/link-protocol.md.
"""

import os
import sys

import flint  # noqa: F401  so that no module of the function's takes its name
from flint_shim.instance import Instance


def main():
    # User code's directory must come first for its imports, not the shim's; `flint` itself is imported already.
    sys.path.append(sys.path.pop(0))
    link, zygote = int(os.environ.pop("FLINT_LINK_FD", "3")), None
    if os.environ.pop("FLINT_ZYGOTE", None) == "1":
        from flint_shim.snapshot import open_zygote

        zygote = open_zygote(link)
    Instance(link, zygote).run()


if __name__ == "__main__":
    main()
