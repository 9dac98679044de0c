import time


def main(params):
    ms = int(params["time"])
    time.sleep(ms / 1000)
    return {"slept": ms}
