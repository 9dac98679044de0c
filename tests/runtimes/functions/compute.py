"""Computes; says how long each of its rounds took, and with `look` whether the interpreter has specialised it before the first."""

import dis
import sys
import time


def factors(n):
    found = 0
    i = 1
    while i * i <= n:
        if n % i == 0:
            found += 1
        i += 1
    return found


def product(size):
    rows = [[float(i + j) for j in range(size)] for i in range(size)]
    total = 0.0
    for i in range(size):
        for j in range(size):
            for k in range(size):
                total += rows[i][k] * rows[k][j]
    return total


def specialised(function):
    """Whether the interpreter runs other instructions than the compiler wrote; None before 3.11, which does not specialise."""
    if sys.version_info < (3, 11):
        return None
    written, now = ([step.opname for step in dis.get_instructions(function, adaptive=adaptive)] for adaptive in (False, True))
    return written != now


def main(params):
    answer = {"optimised": {f.__name__: specialised(f) for f in (factors, product)}} if params.get("look") else {}
    ms = []
    for _ in range(params.get("rounds", 1)):
        begin = time.perf_counter()
        result = factors(params["n"]) + product(params["size"])
        ms.append((time.perf_counter() - begin) * 1000)
    return dict(answer, result=result, ms=ms)
