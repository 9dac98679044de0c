"""A thread that runs cannot be copied."""
import threading
import time

threading.Thread(target=time.sleep, args=(600,), daemon=True, name="lurker").start()


def main(params):
    return {"fine": True}
