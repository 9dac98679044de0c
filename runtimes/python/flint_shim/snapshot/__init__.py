"""`start: fork`: a process that loads the code once, is warmed up and frozen, and then forks a copy of itself for each call.

Only imported where FLINT_ZYGOTE=1 asks for it. System calls go through `posix`: user code may replace what is in `os` (gevent does).
"""

from .refusal import Refused, answer_refusal


def open_zygote(link):
    """The zygote of this process; one that can only say why it cannot be copied where something is missing."""
    try:
        from .fork import Fork

        fork = Fork()  # first, to have the handlers of the standard library's modules, too
        from .zygote import Zygote

        return Zygote(link, fork)
    except ImportError as error:
        return Unavailable(f"this Python cannot be copied, it has no ctypes: {error}")
    except OSError as error:
        return Unavailable(f"the snapshot helper did not start: {error}")
    except Refused as refusal:
        return Unavailable(str(refusal))


class Unavailable:
    """In the place of a zygote. The instance serves calls like any other."""

    def __init__(self, reason):
        self.unavailable = reason

    def prepare(self):
        pass

    def keep(self, head, body):
        pass

    def freeze(self, instance, _):
        answer_refusal(instance, self.unavailable)
