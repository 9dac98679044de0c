"""Small servers that take the place of a back end where the functions are tested without the network: an S3 store, a CouchDB.

They do what the functions here ask for, check what a real one checks (signatures, revisions), and keep everything in memory.
"""

import hashlib
import hmac
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


class Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # An answer is two writes; without this the second waits for the first to be acknowledged.
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def body(self):
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def answer(self, status, data=b"", content_type="application/octet-stream"):
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def answer_json(self, status, value):
        self.answer(status, json.dumps(value).encode(), "application/json")


class Server:
    """A server on a free port of loopback, in threads of its own."""

    def __init__(self, handler):
        class Serving(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

        self.server = Serving(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def s3():
    """(server, values): objects of one bucket, each request with its right signature."""
    values = {"bucket": "flint", "region": "us-east-1", "access_key": "stand-in", "secret_key": "stand-in-secret"}
    objects = {}

    class Handler(Quiet):
        def refused(self, data):
            said = self.headers.get("authorization", "")
            parts = dict(part.strip().split("=", 1) for part in said.removeprefix("AWS4-HMAC-SHA256 ").split(",") if "=" in part)
            digest = hashlib.sha256(data).hexdigest()
            if self.headers.get("x-amz-content-sha256") != digest:
                return "XAmzContentSHA256Mismatch"
            names = parts.get("SignedHeaders", "")
            lines = [f"{name}:{self.headers.get(name, '')}" for name in names.split(";")]
            asked = "\n".join([self.command, self.path, "", *lines, "", names, digest])
            scope = parts.get("Credential", "/").split("/", 1)[1]
            text = "\n".join(["AWS4-HMAC-SHA256", self.headers.get("x-amz-date", ""), scope, hashlib.sha256(asked.encode()).hexdigest()])
            key = f"AWS4{values['secret_key']}".encode()
            for part in scope.split("/"):
                key = hmac.new(key, part.encode(), hashlib.sha256).digest()
            right = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
            return None if hmac.compare_digest(right, parts.get("Signature", "")) else "SignatureDoesNotMatch"

        def do_GET(self):
            if refused := self.refused(b""):
                return self.answer(403, refused.encode())
            data = objects.get(unquote(self.path))
            self.answer(404, b"NoSuchKey") if data is None else self.answer(200, data)

        def do_PUT(self):
            data = self.body()
            if refused := self.refused(data):
                return self.answer(403, refused.encode())
            objects[unquote(self.path)] = data
            self.answer(200)

    server = Server(Handler)
    return server, {"url": server.url, **values}


def couchdb():
    """(server, values): databases of documents with revisions."""
    databases = {}
    lock = threading.Lock()

    class Handler(Quiet):
        def place(self):
            database, _, document = self.path.strip("/").partition("/")
            return database, unquote(document)

        def do_GET(self):
            name, key = self.place()
            with lock:
                documents = databases.get(name)
                if documents is None or (key != "_all_docs" and key not in documents):
                    return self.answer_json(404, {"error": "not_found"})
                if key != "_all_docs":
                    return self.answer_json(200, documents[key])
                rows = [{"id": id, "key": id, "value": {"rev": doc["_rev"]}} for id, doc in sorted(documents.items())]
            self.answer_json(200, {"total_rows": len(rows), "offset": 0, "rows": rows})

        def do_DELETE(self):
            with lock:
                there = databases.pop(self.place()[0], None)
            self.answer_json(404 if there is None else 200, {"ok": there is not None})

        def do_PUT(self):
            name, key = self.place()
            body = self.body()
            with lock:
                if not key:
                    if name in databases:
                        return self.answer_json(412, {"error": "file_exists"})
                    databases[name] = {}
                    return self.answer_json(201, {"ok": True})
                self.answer_json(*self.write(name, key, json.loads(body)))

        def do_POST(self):
            name, _ = self.place()
            docs = json.loads(self.body())["docs"]
            with lock:
                self.answer_json(201, [self.write(name, doc["_id"], doc)[1] for doc in docs])

        def write(self, name, key, document):
            documents = databases.get(name)
            if documents is None:
                return 404, {"error": "not_found"}
            known = documents.get(key)
            if document.get("_rev") != (known and known["_rev"]):
                return 409, {"error": "conflict"}
            generation = int(known["_rev"].split("-")[0]) + 1 if known else 1
            stored = {**document, "_id": key, "_rev": f"{generation}-{hashlib.md5(json.dumps(document, sort_keys=True).encode()).hexdigest()}"}
            documents[key] = stored
            return 201, {"ok": True, "id": key, "rev": stored["_rev"]}

    server = Server(Handler)
    return server, {"url": server.url}
