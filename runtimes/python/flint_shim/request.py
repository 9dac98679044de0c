"""Builds the handler's parameters from an INVOKE head and body."""

from .context import headers_to_dict
from .frame import parse_value


def parameters(head, body):
    headers = head.get("headers")
    content_type = None
    if headers is not None:
        for name, value in headers:
            if name == "content-type":
                content_type = value
                break
    if content_type is None or content_type.split(";", 1)[0].strip().lower() == "application/json":
        return parse_value(body) if body else {}
    return {
        "body": bytes(body),
        "contentType": content_type,
        "headers": headers_to_dict(headers),
        "method": head.get("method"),
        "path": head.get("path"),
        "query": head.get("query"),
    }
