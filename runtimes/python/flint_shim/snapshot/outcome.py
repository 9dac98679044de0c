"""Outcomes of calls in a canonical form that preserves everything a caller could notice, including types and the bits of floats."""

import struct

from ..response import Response


def canonical(value):
    """Nested tuples that are equal if and only if the values are. Must be taken at once: the function may change the value later."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, float):  # also numpy.float64, which JSON encodes in the same way
        return "builtins.float", struct.pack("d", value), float.__repr__(value)
    if kind is complex:
        return name, struct.pack("2d", value.real, value.imag), repr(value)
    if isinstance(value, dict):
        return (name, *((canonical(key), canonical(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return (name, *map(canonical, value))
    if isinstance(value, (set, frozenset)):
        return (name, *sorted(map(canonical, value), key=repr))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return name, bytes(value)
    if isinstance(value, Response):
        return name, canonical(value.body), canonical(value.status), canonical(value.headers), canonical(value.content_type)
    if isinstance(value, BaseException):
        return name, str(value)
    if hasattr(value, "tobytes") and hasattr(value, "dtype"):  # numpy's arrays and scalars
        return name, str(value.dtype), str(getattr(value, "shape", ())), value.tobytes(), repr(value)
    return name, repr(value)


def difference(first, second):
    """Describes where two canonical forms first differ."""
    while isinstance(first, tuple) and isinstance(second, tuple) and first[:1] == second[:1] and len(first) == len(second):
        if not any(isinstance(item, tuple) for item in first):
            break
        first, second = next(pair for pair in zip(first, second) if pair[0] != pair[1])
    return f"{_show(first)} became {_show(second)}"


def _show(form):
    text = form
    if isinstance(form, tuple):
        name = str(form[0]).replace("builtins.", "")
        text = f"{name} {form[-1]}" if len(form) > 1 and not isinstance(form[-1], tuple) else name
    return str(text)[:100]
