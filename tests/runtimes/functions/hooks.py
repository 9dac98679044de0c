"""A socket and a thread are in the way of a snapshot: the hooks take them away and bring them back."""

import socket
import threading

import flint

events = []


def open_again():
    global listener, stop, ticker
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()
    ticker = threading.Thread(target=stop.wait, daemon=True)
    ticker.start()


open_again()


@flint.before_snapshot
def close():
    events.append("before")
    listener.close()
    stop.set()
    ticker.join()


@flint.after_restore
async def note():
    events.append("after")


flint.after_restore(open_again)


def main(params):
    return {"events": events, "listening": listener.getsockname()[1] > 0 and ticker.is_alive()}
