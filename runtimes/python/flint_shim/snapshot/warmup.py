"""Replays the warm-up requests until the interpreter has specialised its code, and finds the functions that they reach."""

import os
import sys
import time

from . import functions, jit
from .output import silenced
from .refusal import Refused

# CPython 3.11 and later specialise a function after some dozens of runs; 3.9 and 3.10 cache its globals after 1,024.
_ROUNDS = 64 if sys.version_info >= (3, 11) else 1_100


def run(instance, requests, options):
    """Replays the requests, compiles functions if requested, and returns a report. `instance.rehearse` runs one request without
    answering it."""
    begin = time.monotonic()
    deadline = begin + options.get("budgetMs", 10_000) / 1000
    reached = functions.Reached(_directory_of(instance.init["code"]))
    notes, calls = [], 0
    try:
        with silenced():
            if requests and (options.get("annotate", True) or options.get("jit")):
                with reached.watched():
                    for request in requests:
                        instance.rehearse(*request)
                calls = len(requests)
            if options.get("jit") == "numba":
                notes += jit.compile_functions(instance, requests, reached, deadline)
            if options.get("annotate", True):
                calls += _repeat(instance, requests, min(options.get("calls", 2_000), _ROUNDS * len(requests)) - calls, deadline, notes)
    except SystemExit as error:
        raise Refused(f"the function exits in its warm-up ({error.code})") from None
    found = reached.report()
    return {"warmupCalls": calls, "warmupMs": round((time.monotonic() - begin) * 1000, 3), "functions": found[:functions.MOST],
            "optimised": sum(function["tier"] == "numba" for function in found), "reached": len(found),
            "notes": notes + reached.notes}


def _repeat(instance, requests, wanted, deadline, notes):
    """Returns the number of calls made."""
    for done in range(wanted):
        if time.monotonic() >= deadline:
            notes.append(f"the warm-up's budget was spent, {wanted - done} calls before its end")
            return done
        instance.rehearse(*requests[done % len(requests)])
    return max(wanted, 0)


def _directory_of(code):
    return code if os.path.isdir(code) else os.path.dirname(code)
