"""Runs the warm-up requests again until the interpreter has adapted to them, and finds out which functions they reach."""

import os
import sys
import time

from . import functions
from .output import silenced
from .refusal import Refused

# 3.11 and later specialise a function after some dozens of runs; 3.9 and 3.10 cache its globals after 1,024.
_ROUNDS = 64 if sys.version_info >= (3, 11) else 1_100


def run(instance, requests, options):
    """Replays; returns the report of it. `instance.rehearse` runs one request without answering it."""
    notes = []
    begin = time.monotonic()
    deadline = begin + options.get("budgetMs", 10_000) / 1000
    calls = 0
    reached = functions.Reached(_directory_of(instance.init["code"]))
    if requests and options.get("annotate", True):
        limit = min(options.get("calls", 2_000), _ROUNDS * len(requests))
        try:
            with silenced():
                with reached.watched():
                    for head, body in requests:
                        instance.rehearse(head, body)
                        calls += 1
                while calls < limit and time.monotonic() < deadline:
                    head, body = requests[calls % len(requests)]
                    instance.rehearse(head, body)
                    calls += 1
        except SystemExit as error:
            raise Refused(f"the function exits in its warm-up ({error.code})") from None
        if calls < limit:
            notes.append(f"the warm-up's budget was spent after {calls} of {limit} calls")
        notes.extend(reached.notes)
    found = reached.report()
    return {"warmupCalls": calls, "warmupMs": round((time.monotonic() - begin) * 1000, 3), "functions": found[:functions.MOST],
            "optimised": sum(function["tier"] == "numba" for function in found), "reached": len(found), "notes": notes}


def _directory_of(code):
    return code if os.path.isdir(code) else os.path.dirname(code)
