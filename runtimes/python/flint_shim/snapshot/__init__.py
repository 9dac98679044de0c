"""`start: fork`: a zygote loads the code once, is warmed up and frozen, and then forks a clone for each call.

Imported only where FLINT_ZYGOTE=1 requests it. System calls go through `posix`: user code may replace functions of `os`, as gevent
does.
"""


def open_zygote(link):
    """The zygote of this process, or a message that says what is missing for one."""
    try:
        from .fork import Fork

        fork = Fork()  # first, so that it also sees the handlers that modules of the standard library register
        from .zygote import Refused, Zygote
    except ImportError as error:
        return f"this Python cannot be copied, it has no ctypes: {error}"
    try:
        return Zygote(link, fork)
    except OSError as error:
        return f"the snapshot helper did not start: {error}"
    except Refused as refusal:
        return str(refusal)
