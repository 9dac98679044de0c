#!/usr/bin/env python3
"""Leaves out of a profile, in LLVM's text form, what never ran and has fewer than PARTS parts: the larger of these are compiled for size,
and without the many small ones the profile is a quarter of its size.

    trim.py PARTS < all.proftext > flint.proftext
"""

import sys


def counters(record):
    """How often each part of a function ran."""
    _, _, values = record.partition("# Counter Values:\n")
    counted = []
    for line in values.splitlines():
        # Kinds of values follow where the compiler recorded them.
        if line.startswith("#"):
            break
        counted.append(int(line))
    return counted


def main(parts):
    header, _, records = sys.stdin.read().partition(":ir\n")
    functions = (record.strip() for record in records.split("\n\n") if record.strip())
    kept = (record for record in functions if any(ran := counters(record)) or len(ran) >= parts)
    sys.stdout.write(header + ":ir\n" + "".join(f"{record}\n\n" for record in kept))


if __name__ == "__main__":
    main(int(sys.argv[1]))
