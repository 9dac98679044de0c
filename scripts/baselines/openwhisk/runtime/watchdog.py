"""Inside the container: a process of its own for each call, params on its standard input, the answer on its standard output, as OpenFaaS'
classic watchdog does. Calls run side by side.

watchdog.py SOCKET COMMAND…
"""

import json
import socketserver
import subprocess
import sys
from http.server import BaseHTTPRequestHandler


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))["value"]
        done = subprocess.run(sys.argv[2:], input=json.dumps(asked).encode(), capture_output=True)
        status, body = (200, done.stdout) if done.returncode == 0 else (502, done.stderr[-4000:])
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self):
        return "the host"

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 256


Server(sys.argv[1], Handler).serve_forever()
