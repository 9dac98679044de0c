"""A process that cannot be copied says why, and waits for its end."""

from .. import stdio
from ..frame import ERROR, failure


class Refused(Exception):
    """The process cannot be copied; the message says what is in the way, and what to do."""


def answer_refusal(instance, message):
    """Answers FREEZE. Does not return: the end of the link ends the process."""
    stdio.flush()
    instance.link.send_json(ERROR, 0, failure("snapshot", message))
    while True:
        instance.link.receive()
