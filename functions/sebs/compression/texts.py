"""The files that are packed: words chosen by a seed, so that they compress about as well as prose."""

import random

SIZES = {"test": (4, 4_000), "small": (20, 100_000), "large": (100, 200_000)}
WORDS = [a + b + c for a in ("ba", "do", "ke", "li", "mu") for b in ("", "ra", "sto", "ven") for c in ("n", "t", "ss", "lo")]


def text(size, number):
    count, length = SIZES[size]
    if number >= count:
        raise ValueError(number)
    chooser = random.Random(f"{size} {number}")
    words = " ".join(chooser.choices(WORDS, k=length // 4))
    return words[:length].encode()
