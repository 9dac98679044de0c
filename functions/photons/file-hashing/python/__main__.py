import hashlib
import time

from s3 import Store

store = None


def main(params):
    global store
    if store is None:
        store = Store()
    started = time.perf_counter()
    data = store.get(f"files/file-{params['seed']}.dat")
    return {"hash": hashlib.md5(data[: params["bytes"]]).hexdigest().upper(), "time": (time.perf_counter() - started) * 1000}
