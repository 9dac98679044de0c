"""Registers and runs user code's hooks: before the snapshot, and in each clone after the restore."""

_before, _after = [], []


def before_snapshot(function, *args, **kwargs):
    """Runs `function(*args, **kwargs)` before the snapshot, in reverse order of registration. Also a decorator. May be async."""
    _before.append((function, args, kwargs))
    return function


def after_restore(function, *args, **kwargs):
    """Runs `function(*args, **kwargs)` in each copy before its first call, in order of registration. Also a decorator. May be async.

    An instance that is not restored from a snapshot runs it once, after its code has been loaded.
    """
    _after.append((function, args, kwargs))
    return function


def run_before_snapshot(finish):
    _run(reversed(_before), finish)


def run_after_restore(finish, rehearsed=False):
    """Runs user code's hooks, unless it is only `rehearsed`."""
    _run(() if rehearsed else _after, finish)


def _run(hooks, finish):
    """`finish` runs the awaitable of an async hook to completion."""
    for function, args, kwargs in list(hooks):
        result = function(*args, **kwargs)
        if hasattr(result, "__await__"):
            finish(result)
