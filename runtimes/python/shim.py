"""Flint's shim for Python functions: one process, one link to Flint, one function.

Contract: docs/link-protocol.md.
"""

import os
import sys

from flint.instance import Instance


def main():
    # The code's directory, not the shim's, comes first for user code; `flint` itself is imported already.
    sys.path.append(sys.path.pop(0))
    Instance(int(os.environ.pop("FLINT_LINK_FD", "3"))).run()


if __name__ == "__main__":
    main()
