"""Answers each POST by a container of its own: the body goes to its standard input, its output is the answer.

serve.py DATA_DIR RUNTIME PORT
"""

import itertools
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

data, runtime, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
numbers = itertools.count()
lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # A response takes two writes; otherwise the second would wait for the acknowledgement of the first.
    disable_nagle_algorithm = True

    def do_POST(self):
        params = self.rfile.read(int(self.headers["content-length"]))
        with lock:
            name = f"flint-baseline-{os.getpid()}-{next(numbers)}"
        done = subprocess.run(
            [runtime, "--root", f"{data}/state", "run", "--bundle", f"{data}/bundle", name], input=params, capture_output=True
        )
        status, body = (200, done.stdout) if done.returncode == 0 else (502, done.stderr[-4000:])
        self.send_response(status)
        self.send_header("content-type", "application/json" if status == 200 else "text/plain")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


Server(("127.0.0.1", port), Handler).serve_forever()
