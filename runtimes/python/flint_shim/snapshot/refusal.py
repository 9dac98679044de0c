"""Reports why a process cannot be cloned, and then waits until the link closes."""

from .. import stdio
from ..frame import ERROR, failure


class Refused(Exception):
    """The process cannot be cloned; the message names the obstacle and the remedy."""


def answer_refusal(instance, message):
    """Answers FREEZE with an error. Does not return: the process exits when the link closes."""
    stdio.flush()
    instance.link.send_json(ERROR, 0, failure("snapshot", message))
    while True:
        instance.link.receive()
