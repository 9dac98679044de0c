"""What every call can be asked to do: params["do"]."""

import os
import platform
import re
import sys

calls = 0


def hello(params):
    global calls
    calls += 1
    return {"greeting": f"Hello {params['who']}", "version": platform.python_version(), "calls": calls}


def log(params):
    print(params["text"], "to stdout")
    print(params["text"], "to stderr", file=sys.stderr)
    return {}


def fail(_):
    raise IndexError("thrown on purpose")


def leave(_):
    os._exit(3)


def loop(_):
    while True:
        pass


def memory(_):
    with open("/proc/self/smaps_rollup") as file:
        kib = dict(re.findall(r"^(\w+):\s+(\d+) kB", file.read(), re.M))
    return {"rss": int(kib["Rss"]), "private": int(kib["Private_Clean"]) + int(kib["Private_Dirty"])}


ways = {"hello": hello, "log": log, "fail": fail, "exit": leave, "loop": loop, "memory": memory}


def main(params):
    return ways[params["do"]](params)
