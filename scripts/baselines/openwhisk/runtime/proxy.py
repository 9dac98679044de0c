"""Inside the container: takes the function's code once at /init, and calls of it at /run, as OpenWhisk's runtimes do.

proxy.py SOCKET
"""

import json
import socketserver
import sys
import types
from http.server import BaseHTTPRequestHandler

function = types.ModuleType("function")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Buffers head and body into a single write.
    wbufsize = -1

    def do_POST(self):
        try:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))["value"]
            if self.path == "/init":
                exec(compile(asked["code"], "function", "exec"), function.__dict__)
                status, body = 200, {"ok": callable(getattr(function, asked["main"]))}
            else:
                status, body = 200, function.main(asked)
        except Exception as error:
            status, body = 502, {"error": repr(error)}
        answer = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def address_string(self):
        return "the host"

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


Server(sys.argv[1], Handler).serve_forever()
