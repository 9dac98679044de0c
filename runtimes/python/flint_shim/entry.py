"""Calls the user's function: detects which arguments it takes, and runs coroutines to completion."""

import types

from .pieces import Pieces

_VARARGS = 0x04  # CO_VARARGS
_COROUTINE = 0x80 | 0x200  # CO_COROUTINE, CO_ASYNC_GENERATOR


class Entry:
    """The user's function behind one signature, `call(params, context)`."""

    def __init__(self, function):
        self.function = function
        self._arguments = _count_arguments(function)
        self.loop = None
        code = getattr(function, "__code__", None)
        if code is not None and code.co_flags & _COROUTINE:
            self._event_loop()

    def call(self, params, context):
        if self._arguments == 1:
            result = self.function(params)
        elif self._arguments == 2:
            result = self.function(params, context)
        else:
            result = self.function()
        if hasattr(result, "__await__"):
            result = self.finish(result)
        return result

    def finish(self, awaitable):
        """Runs an awaitable to completion."""
        return self._event_loop().run_until_complete(finished(awaitable))

    def iterate(self, stream):
        """Yields the pieces of a synchronous or asynchronous iterator."""
        if not hasattr(stream, "__anext__"):
            yield from stream
            return
        pieces = Pieces(stream)
        try:
            while True:
                piece, end = self.finish(pieces.next())
                if isinstance(end, StopAsyncIteration):
                    return
                if end is not None:
                    raise end
                yield piece
        finally:
            error = self.finish(pieces.close())
            if error is not None:
                raise error

    def _event_loop(self):
        """One event loop for the whole process, so that what a function opens on it in one call remains usable in the next."""
        if self.loop is None:
            import asyncio  # most functions are not async, and the import is slow

            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        return self.loop


async def finished(awaitable):
    return await awaitable


def _count_arguments(function):
    """The number of arguments that the function takes: 0, 1 (the parameters) or 2 (the context as well)."""
    names, required, takes_rest = _parameters(function)
    wrapped = getattr(function, "__wrapped__", None)
    if takes_rest and wrapped is not None:  # a decorator that passes on what it is given; others are called as they are written
        owner = getattr(function, "__self__", None)
        return _count_arguments(wrapped if owner is None else types.MethodType(wrapped, owner))
    if required >= 2 or (len(names) >= 2 and names[1] == "context"):
        return 2
    return 1 if names or takes_rest else 0


def _parameters(function):
    """The names of its own positional parameters, how many of them have no default, and whether it takes any further ones."""
    code = getattr(function, "__code__", None)
    if code is not None and not hasattr(function, "__signature__"):
        bound = 1 if getattr(function, "__self__", None) is not None else 0
        names = code.co_varnames[bound:code.co_argcount]
        return names, len(names) - len(function.__defaults__ or ()), bool(code.co_flags & _VARARGS)
    import inspect

    try:
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):
        return (), 0, True
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return ([p.name for p in positional], sum(p.default is p.empty for p in positional),
            any(p.kind is p.VAR_POSITIONAL for p in parameters))
