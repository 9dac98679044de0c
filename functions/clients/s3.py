"""Gets and puts objects of an S3 store, with signature version 4. The environment says where: S3_URL, S3_BUCKET, S3_REGION,
S3_ACCESS_KEY, S3_SECRET_KEY."""

import hashlib
import hmac
import http.client
import os
from datetime import datetime, timezone
from urllib.parse import quote, urlsplit


class Refused(Exception):
    """The store answered with another status than 200."""


class Store:
    """One kept connection; a new one when the store has closed it."""

    def __init__(self, env=os.environ):
        self.place = urlsplit(env["S3_URL"])
        self.bucket, self.region = env["S3_BUCKET"], env["S3_REGION"]
        self.access_key, self.secret_key = env["S3_ACCESS_KEY"], env["S3_SECRET_KEY"]
        self.connection = None

    def get(self, key):
        return self.ask("GET", f"/{self.bucket}/{quote(key)}")

    def put(self, key, data):
        self.ask("PUT", f"/{self.bucket}/{quote(key)}", data)

    def make_bucket(self):
        """Makes the bucket, unless it is there."""
        try:
            self.ask("PUT", f"/{self.bucket}")
        except Refused as error:
            if "BucketAlreadyOwnedByYou" not in str(error) and "BucketAlreadyExists" not in str(error):
                raise

    def ask(self, method, path, data=b""):
        headers = self.signed(method, path, data)
        for fresh in (self.connection is None, True):
            if fresh:
                self.connection = http.client.HTTPConnection(self.place.hostname, self.place.port, timeout=30)
            try:
                self.connection.request(method, path, body=data or None, headers=headers)
                answer = self.connection.getresponse()
                body = answer.read()
                break
            except (http.client.RemoteDisconnected, ConnectionError):
                if fresh:
                    raise
        if answer.status != 200:
            raise Refused(f"{method} {path}: the store answered with {answer.status}: {body[:300].decode('utf-8', 'replace')}")
        return body

    def signed(self, method, path, data):
        now = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        digest = hashlib.sha256(data).hexdigest()
        headers = {"host": self.place.netloc, "x-amz-content-sha256": digest, "x-amz-date": now}
        names = ";".join(headers)
        asked = "\n".join([method, path, "", *(f"{name}:{value}" for name, value in headers.items()), "", names, digest])
        scope = f"{now[:8]}/{self.region}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(asked.encode()).hexdigest()])
        key = f"AWS4{self.secret_key}".encode()
        for part in scope.split("/"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        return headers
