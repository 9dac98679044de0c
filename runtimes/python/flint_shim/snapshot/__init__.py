"""`start: fork`: a process that loads the code once, is warmed up and frozen, and then forks a copy of itself for each call.

Only imported where FLINT_ZYGOTE=1 asks for it. System calls go through `posix`: user code may replace what is in `os` (gevent does).
"""


def open_zygote(link):
    """The zygote of this process, or what is missing for one, in words."""
    try:
        from .fork import Fork

        fork = Fork()  # first, to have the handlers of the standard library's modules, too
        from .zygote import Refused, Zygote
    except ImportError as error:
        return f"this Python cannot be copied, it has no ctypes: {error}"
    try:
        return Zygote(link, fork)
    except OSError as error:
        return f"the snapshot helper did not start: {error}"
    except Refused as refusal:
        return str(refusal)
