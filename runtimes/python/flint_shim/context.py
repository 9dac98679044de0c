"""The call's metadata, which a handler gets as the second argument of `handler(event, context)`."""

import time


class Context:
    __slots__ = ("activation_id", "function_name", "function_version", "namespace", "deadline_ms", "transaction_id",
                 "method", "path", "query", "headers")

    def __init__(self, init, head):
        self.activation_id = head.get("activation")
        self.function_name = init.get("name")
        self.function_version = init.get("version")
        self.namespace = init.get("namespace")
        self.deadline_ms = head.get("deadline")
        self.transaction_id = head.get("transaction")
        self.method = head.get("method")
        self.path = head.get("path")
        self.query = head.get("query")
        headers = head.get("headers")
        self.headers = None if headers is None else headers_to_dict(headers)

    def get_remaining_time_in_millis(self):
        return max(0, self.deadline_ms - int(time.time() * 1000))


def headers_to_dict(pairs):
    """Header pairs as a dict; values of a repeated name are joined with a comma, as HTTP allows."""
    headers = {}
    for name, value in pairs:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
