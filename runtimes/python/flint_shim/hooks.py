"""What user code asks to be run before the snapshot is taken and after a copy of it has started."""

_before, _after = [], []


def before_snapshot(function, *args, **kwargs):
    """Runs `function(*args, **kwargs)` before the snapshot; the last one registered runs first. Also a decorator. May be async."""
    _before.append((function, args, kwargs))
    return function


def after_restore(function, *args, **kwargs):
    """Runs `function(*args, **kwargs)` in each copy before its first call, in the order of registration. Also a decorator. May be async.

    An instance that does not come from a snapshot runs it once, when its code has been loaded.
    """
    _after.append((function, args, kwargs))
    return function


def run_before_snapshot(finish):
    _run(reversed(_before), finish)


def run_after_restore(finish, rehearsed=False):
    """Those of user code, unless it is only `rehearsed`."""
    _run(() if rehearsed else _after, finish)


def _run(hooks, finish):
    """`finish` runs what an async hook returns to its end."""
    for function, args, kwargs in list(hooks):
        result = function(*args, **kwargs)
        if hasattr(result, "__await__"):
            finish(result)
