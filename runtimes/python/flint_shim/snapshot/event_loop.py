"""Carries the shim's event loop across a fork: its selector and wake-up pipe are descriptors, which clones must not share."""

import signal
import sys


def suspend(entry):
    """At the freeze: closes the loop's descriptors. Returns messages about obstacles."""
    if entry.loop is None or entry.loop.is_closed():
        entry.loop = None
        return []
    import asyncio

    loop = entry.loop
    loop.run_until_complete(asyncio.sleep(0))  # runs the callbacks that are ready
    tasks = [task.get_name() for task in asyncio.all_tasks(loop)]
    if tasks:
        return [f"asyncio tasks are running ({', '.join(sorted(tasks)[:5])}): end them in the handler or in flint.before_snapshot"]
    if getattr(loop, "_default_executor", None) is not None:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop._default_executor, loop._executor_shutdown_called = None, False
    if not isinstance(loop, asyncio.SelectorEventLoop):
        loop.close()  # another implementation (uvloop): each clone creates a new one
        entry.loop = None
        return []
    if any(not handle.cancelled() for handle in loop._scheduled):
        return ["asyncio timers are set (loop.call_later): cancel them in flint.before_snapshot"]
    loop._close_self_pipe()
    loop._selector.close()
    return []


def resume(entry):
    """In a clone: the same loop object, to which user code's locks and queues are bound, with descriptors of its own."""
    loop = entry.loop
    if loop is None:
        return
    import asyncio
    import selectors

    loop._selector = selectors.DefaultSelector()
    loop._make_self_pipe()
    asyncio.set_event_loop(loop)
    if getattr(loop, "_signal_handlers", None):
        signal.set_wakeup_fd(loop._csock.fileno())


def others(entry):
    """Event loops that user code created and did not close."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return []
    import gc

    found = [loop for loop in gc.get_objects() if issubclass(type(loop), asyncio.AbstractEventLoop) and loop is not entry.loop]
    open_ones = sum(not loop.is_closed() for loop in found)
    return [f"{open_ones} event loops of your own are open: close them in flint.before_snapshot"] if open_ones else []
