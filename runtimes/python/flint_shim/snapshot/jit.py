"""`--jit numba`: replaces functions of user code by machine code that numba compiles, where this does not change any result.

Functions are taken one by one, callees first: compile, replay all warm-up events, compare. The machine code stays only if every
outcome is the same as before, including types and every bit of a float. Argument types that did not occur in the warm-up always go to
the original, so that a call neither fails for an unsupported type nor waits for the compiler. The comparison cannot detect one
difference: numba's integers have 64 bits and wrap around.
"""

import time
import types

from .constants import Constants
from .outcome import canonical, difference
from .refusal import Refused

_NOT_INSTALLED = "numba is not in the function's environment: add it to its virtualenv"
_WRAPS = "numba: integers in compiled functions have 64 bits and wrap; warm up with the largest values there will be"
_GENERATOR_OR_COROUTINE = 0x20 | 0x80 | 0x200


def load_numba():
    try:
        import numba
    except ModuleNotFoundError as error:
        if error.name != "numba":
            raise Refused(f"numba cannot be imported: {error}") from None
        raise Refused(_NOT_INSTALLED) from None
    except Exception as error:
        raise Refused(f"numba cannot be imported: {type(error).__name__}: {error}") from None
    return numba


def compile_functions(instance, requests, reached, deadline):
    """Replaces the functions that can be compiled by machine code; returns a message for each function."""
    numba = load_numba()
    if not requests:
        return ["numba: there is no warm-up event to compare the results of, nothing was compiled"]
    baseline = [_outcome(instance, request) for request in requests]
    for first, request in zip(baseline, requests):
        again = _outcome(instance, request)
        if first != again:
            return [f"numba: nothing was compiled, because the function's result differs from call to call ({difference(first, again)})"]
    trial = _Trial(numba, instance, requests, baseline)
    notes, compiled = [], False
    modules = reached.modules()
    constants = Constants(modules)
    for function in _callees_first(_candidates(modules, reached, instance.entry.function)):
        name = f"numba: {function.__qualname__}"
        reason = _cannot_stay_the_same(function) or constants.doubt(function)
        if reason is None and time.monotonic() > deadline:
            reason = "the budget was spent"
        if reason is None:
            reason = trial.replace(function, modules)
        notes.append(f"{name}: compiled" if reason is None else f"{name}: left as it is, {reason}")
        compiled = compiled or reason is None
    if compiled:
        notes.insert(0, _WRAPS)
    return notes


class _Trial:
    def __init__(self, numba, instance, requests, baseline):
        self._numba, self._instance, self._requests, self._baseline = numba, instance, requests, baseline

    def replace(self, function, modules):
        """Replaces the function if no result changes; otherwise says why not."""
        failures = []
        try:
            compiled = self._numba.njit(cache=True, boundscheck=True)(function)
        except Exception as error:
            return f"numba refuses it ({_first_line(error)})"
        compile_for_args = compiled._compile_for_args

        def compile_or_fall_back(*args, **kwargs):
            try:
                return compile_for_args(*args, **kwargs)
            except Exception as error:
                failures.append(error)
                return function

        compiled._compile_for_args = compile_or_fall_back
        places = [(module, name) for module in modules for name, value in list(vars(module).items()) if value is function]
        for module, name in places:
            setattr(module, name, compiled)
        reason = self._compare()
        if reason is None and not compiled.nopython_signatures:
            reason = f"numba cannot compile it ({_first_line(failures[0])})" if failures else "the warm-up did not call it by its name"
        if reason is None:
            compiled._compile_for_args = lambda *args, **kwargs: function
            return None
        for module, name in places:
            setattr(module, name, function)
        return reason

    def _compare(self):
        for expected, request in zip(self._baseline, self._requests):
            found = _outcome(self._instance, request)
            if found != expected:
                return f"the result would change ({difference(expected, found)})"
        return None


def _outcome(instance, request):
    return canonical(instance.rehearse(*request))


def _candidates(modules, reached, entry):
    """Top-level functions of the user's modules that the warm-up called; the handler itself takes types that numba does not support."""
    codes, found = set(reached.codes()), {}
    for module in modules:
        for value in list(vars(module).values()):
            if (type(value) is types.FunctionType and value is not entry and value.__code__ in codes
                    and not value.__code__.co_flags & _GENERATOR_OR_COROUTINE and not value.__closure__):
                found[value] = None
    return list(found)


def _callees_first(functions):
    """Sorts functions so that callees come before their callers, as far as recursion permits."""
    ordered, visited = [], set()

    def visit(function):
        if function in visited:
            return
        visited.add(function)
        for name in function.__code__.co_names:
            callee = function.__globals__.get(name)
            if type(callee) is types.FunctionType and callee in wanted:
                visit(callee)
        ordered.append(function)

    wanted = set(functions)
    for function in functions:
        visit(function)
    return ordered


def _cannot_stay_the_same(function):
    """A difference of the machine code that comparing results cannot detect, or None."""
    if vars(function):
        return "it has attributes"
    for name in ("print", "input"):
        if name in function.__code__.co_names and name not in function.__globals__:
            return f"it calls {name}()"
    return None


def _first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:2])}"[:300]
