"""What a snapshot must not decide once for all calls."""

import asyncio
import random as generator
import time
import uuid

calls = 0


def main(params):
    global calls
    calls += 1
    if params.get("fail"):
        raise ValueError(f"asked to fail: {params['fail']}")
    if params.get("later"):
        return later()
    return {"calls": calls, "random": [generator.random(), str(uuid.uuid4())], "now": time.time() * 1000}


async def later():
    await asyncio.sleep(0.01)
    return {"later": True}
