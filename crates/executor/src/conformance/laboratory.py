import ctypes
import os
import random
import socket
import sys
import time
import uuid

calls = 0
MEGABYTE = 1 << 20


def state(params):
    global calls
    before = {"calls": calls, "tmp": os.path.exists("/tmp/mark"), "env": os.environ.get("MARK", "")}
    calls += 1
    with open("/tmp/mark", "w") as file:
        file.write("x")
    os.environ["MARK"] = "set"
    return {**before, "greeting": os.environ["GREETING"]}


def echo(params):
    return {"text": params["text"]}


def draw(params):
    values = [random.random(), uuid.uuid4(), os.urandom(8).hex(), random.getrandbits(40)]
    return {"values": [str(value) for value in values]}


def loop(params):
    while True:
        pass


def forks(params):
    while True:
        try:
            os.fork()
        except OSError:
            time.sleep(0.01)


def memory(params):
    kept = []
    while True:
        kept.append(b"x" * (16 * MEGABYTE))


def log(params):
    for n in range(params["from"], params["to"]):
        print(f"out {n}")
        print(f"err {n}", file=sys.stderr)
    print("no newline", end="")
    return {}


def flood(params):
    piece = (b"x" * 1023 + b"\n") * 1024
    for _ in range(params["megabytes"]):
        at = 0
        while at < len(piece):
            at += os.write(1, piece[at:])
    return {"written": params["megabytes"]}


def close(params):
    os.close(1)
    os.close(2)
    return {"closed": True}


def leave(params):
    os._exit(7)


def crash(params):
    ctypes.string_at(0)


def fail(params):
    raise ValueError("asked to")


def fail_with_half(params):
    sys.exit("asked to \ud83d")


def big(params):
    return {"text": "y" * params["bytes"]}


def number(params):
    return 17


def read(params):
    try:
        if os.path.isdir(params["path"]):
            return {"read": ",".join(os.listdir(params["path"]))}
        with open(params["path"], "rb") as file:
            return {"read": file.read().decode("latin1")}
    except OSError as error:
        return {"refused": str(error)}


def write(params):
    try:
        with open(params["path"], "w") as file:
            file.write("x")
        return {"written": True}
    except OSError as error:
        return {"refused": str(error)}


def connect(params):
    try:
        socket.create_connection((params["host"], params["port"]), timeout=2).close()
        return {"connected": True}
    except OSError as error:
        return {"refused": str(error)}


def stream(params):
    for n in range(params["megabytes"]):
        if params.get("pause"):
            time.sleep(params["pause"] / 1000)
        yield bytes([n % 251]) * MEGABYTE
    print("streamed")


def binary(params):
    return bytes([0, 255, 1])


OPS = {
    **{f.__name__: f for f in [state, echo, loop, forks, memory, log, flood, close, crash, big, number, read, write]},
    **{f.__name__: f for f in [connect, stream, binary]},
    "random": draw,
    "exit": leave,
    "throw": fail,
    "throwHalf": fail_with_half,
}


def main(params):
    if isinstance(params.get("body"), bytes):
        body = params["body"]
        return {"length": len(body), "last": body[-1], "type": params["contentType"]}
    return OPS[params["op"]](params)
