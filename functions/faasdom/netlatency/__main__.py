def main(_params):
    return {"success": True, "payload": {"test": "latency test"}}
