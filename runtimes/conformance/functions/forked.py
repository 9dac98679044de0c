"""For test_zygote.py: what a clone finds of itself."""

import asyncio
import errno
import os
import sys

import flint

count = 0
events = []


@flint.before_snapshot
def first_before():
    events.append("before 1")
    if os.environ.get("BEFORE") == "fails":
        raise RuntimeError("cannot be frozen")


@flint.before_snapshot
async def second_before():
    events.append("before 2")


@flint.after_restore
def first_after():
    events.append("after 1")
    if os.environ.get("AFTER") == "fails":
        raise RuntimeError("cannot be restored")


@flint.after_restore
async def second_after():
    await asyncio.sleep(float(os.environ.get("SLOW_MS", 0)) / 1000)
    events.append("after 2")


def descriptors():
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            pass  # the one the list was read with
    return found


async def main(params):
    global count
    do = params.get("do", "count")
    if do == "count":
        count += 1
        return {"count": count}
    if do == "events":
        return {"events": events}
    if do == "descriptors":
        return {"descriptors": descriptors()}
    if do == "pid":
        return {"pid": os.getpid()}
    if do == "environment":
        return {"environment": dict(os.environ)}
    if do == "write":
        print(params["text"])
        print(params["text"], file=sys.stderr)
        return {}
    if do == "signal":
        try:
            os.kill(params["pid"], 0)
        except OSError as error:
            return {"error": errno.errorcode[error.errno]}
        return {"error": None}
    raise ValueError(do)
