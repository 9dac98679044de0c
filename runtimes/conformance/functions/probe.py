import itertools
import os
import subprocess
import sys
import time

from flint import Response

state = {"calls": 0, "streamsClosed": 0, "atLoad": os.environ.get("GREETING")}


def main(params, context):
    state["calls"] += 1
    if isinstance(params, dict) and isinstance(params.get("body"), bytes):
        return Response(params["body"], content_type=params["contentType"],
                        headers={"x-length": len(params["body"]), "x-method": params["method"]})
    do = params.get("do") if isinstance(params, dict) else None
    if do == "fail":
        raise ValueError("boom")
    if do == "scalar":
        return 5
    if do == "unencodable":
        return {"value": float("nan")}
    if do == "binary":
        return bytes([0, 255, 128, 10])
    if do == "response":
        return Response("héllo", 201, {"x-made": "by probe"}, "text/plain; charset=utf-8")
    if do == "stream":
        return pieces(params.get("pieces"), params["size"], params.get("pauseMs", 5))
    if do == "streamFails":
        return failing()
    if do == "log":
        for i in range(params["lines"]):
            print(f"out {i} ☃")
            print(f"err {i} ☃", file=sys.stderr)
        return {}
    if do == "env":
        return {name: os.environ.get(name) for name in params["names"]}
    if do == "envOfChild":
        return {"lines": subprocess.run(["env"], stdout=subprocess.PIPE, text=True).stdout.split("\n")}
    if do == "context":
        return {"activation": context.activation_id, "name": context.function_name, "version": context.function_version,
                "namespace": context.namespace, "remaining": context.get_remaining_time_in_millis(),
                "method": context.method, "headers": context.headers}
    if do == "exit":
        sys.exit(7)
    if do == "closeStdout":
        sys.stdout.close()
        return {"closed": True}
    if do == "descriptors":
        return {"text": subprocess.run(["ls", "-l", "/proc/self/fd"], stdout=subprocess.PIPE, text=True, close_fds=False).stdout}
    if do == "state":
        return state
    if do == "echoArray":
        return params["items"]
    return params


def pieces(count, size, pause_ms):
    try:
        for i in itertools.count() if count is None else range(count):
            yield bytes([i & 255]) * size
            if count is None:
                time.sleep(pause_ms / 1000)
    finally:
        state["streamsClosed"] += 1


def failing():
    yield "a beginning"
    raise ValueError("boom")
