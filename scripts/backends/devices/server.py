"""The device servers of the Alexa chain: each path is a device with a switch.

POST /NAME {"req_switch": "ON" | "OFF"} sets it, GET /NAME tells it.      server.py ADDRESS PORT
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DEVICES = ("door", "light", "tv", "air-conditioning", "plug")
switches = dict.fromkeys(DEVICES, "OFF")


class Device(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # A response takes two writes; otherwise the second would wait for the acknowledgement of the first.
    disable_nagle_algorithm = True

    def do_GET(self):
        name = self.path.strip("/")
        if name not in switches:
            return self.answer(404, {"error": f"there is no device {name}"})
        self.answer(200, {"text": f"{name}: switch {switches[name]}"})

    def do_POST(self):
        name = self.path.strip("/")
        body = self.rfile.read(min(int(self.headers.get("content-length") or 0), 65536))
        if name not in switches:
            return self.answer(404, {"error": f"there is no device {name}"})
        try:
            wanted = json.loads(body)["req_switch"]
        except (ValueError, TypeError, KeyError):
            wanted = None
        if wanted not in ("ON", "OFF"):
            return self.answer(400, {"error": "req_switch is neither ON nor OFF"})
        switches[name] = wanted
        self.answer(200, {"text": f"{name}: switch {wanted}"})

    def answer(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


if __name__ == "__main__":
    Server((sys.argv[1], int(sys.argv[2])), Device).serve_forever()
