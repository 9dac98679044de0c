"""An asynchronous handler with the other signature."""

import asyncio
import hashlib


async def digest(text):
    await asyncio.sleep(0.001)
    return hashlib.sha256(("salt" + text).encode()).hexdigest()


async def handler(event, context):
    first, second = await asyncio.gather(digest(event["text"]), digest("other"))
    return {"digest": first, "differs": first != second, "left": context.get_remaining_time_in_millis() > 0}
