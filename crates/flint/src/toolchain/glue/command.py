"""Around a Python handler: one call is one run of a WASI program. FUNCTION and NAMES are set at the build."""

import asyncio
import inspect
import json
import os
import random
import sys
import traceback

import flint_function as function
from componentize_py_types import Err
from wit_world.imports import environment

NAMES = (@MAIN@)

handler = next((getattr(function, name) for name in NAMES if callable(getattr(function, name, None))), None)
if handler is None:
    raise SystemExit(f"the code has no function called {' or '.join(NAMES)}")
try:
    WANTED = len(inspect.signature(handler).parameters)
except ValueError:
    WANTED = 1


class Loop(asyncio.SelectorEventLoop):
    """An event loop without the pair of sockets that other threads would wake it by: there are none."""

    def _make_self_pipe(self):
        pass

    def _close_self_pipe(self):
        pass


class Run:
    def run(self):
        # What was decided when the snapshot was taken and has to be anew for every call.
        random.seed()
        os.environ.update(environment.get_environment())
        answers, sys.stdout = sys.stdout, sys.stderr
        try:
            text = sys.stdin.buffer.read()
            event = json.loads(text) if text else {}
            answer = handler(*(event, {})[:WANTED])
            if inspect.iscoroutine(answer):
                with asyncio.Runner(loop_factory=Loop) as runner:
                    answer = runner.run(answer)
            answers.write(json.dumps({} if answer is None else answer))
            answers.flush()
        except Exception:
            traceback.print_exc()
            raise Err(None) from None
        finally:
            sys.stderr.flush()
