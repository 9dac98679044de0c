"""Addresses of functions, and APIs in front of them."""

import json
import urllib.error
import urllib.request

from harness import claim

PAGE_JS = "exports.main = ({ name = 'world', __ow_path }) => ({ body: `hello ${name}${__ow_path}` });\n"


def opened(url, method="GET"):
    """Status and text of what anybody gets."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_function_that_is_exported_has_an_address_for_anybody(world):
    world.ok("deploy", world.file("page.js", PAGE_JS), "--annotation", "web-export=true")
    url = world.ok("url", "page").text.strip()
    claim(opened(f"{url}?name=you") == (200, "hello you"), url)
    url = world.ok("url", "page", "--form", "text", "--json").json()["url"]
    claim(url.endswith(".text") and opened(url) == (200, "hello world"), url)
    world.ok("deploy", world.file("page.js", PAGE_JS))
    done = world.ok("url", "page")
    claim(done.text.strip().endswith("/v1/functions/page/invoke") and "web-export=true" in done.said, done)
    world.refused(4, "is not open to the web", "web-export=true", arguments=["url", "page", "--form", "json"])
    world.refused(4, "there is no function", arguments=["url", "nobody"])


def test_an_api_is_made_listed_called_and_deleted(world):
    world.ok("deploy", world.file("book.js", PAGE_JS), "--annotation", "web-export=true", "--annotation", "require-whisk-auth=s3cret")
    made = world.ok("api", "create", "/club", "/books/{id}", "get", "book", "--name", "Book Club", "--secret", "s3cret")
    url = made.text.strip()
    claim(url.endswith("/api/v1/gateway/guest/club/books/{id}"), made)
    claim(opened(url.replace("{id}", "7")) == (200, "hello world/club/books/7"), url)
    claim(opened(world.ok("url", "book").text.strip())[0] == 401, "directly, the secret is asked for")
    claim(opened(url.replace("{id}", "7"), "PUT")[0] == 405)
    listed = world.ok("api", "list").text
    claim("Book Club" in listed and "book" in listed and url in listed, listed)
    claim("s3cret" not in json.dumps(world.ok("api", "list", "--json").json()))

    document = world.ok("api", "get", "Book Club").json()
    document["paths"]["/all"] = document["paths"]["/books/{id}"]
    world.ok("api", "create", "--swagger", "-", stdin=json.dumps(document).encode(), env={"FLINT_API_SECRET": "of other APIs"})
    claim(opened(url.replace("{id}", "8"))[0] == 200, "the secret is kept")
    world.ok("api", "delete", "/club", "/all", "get")
    claim(len(world.ok("api", "get", "/club").json()["paths"]) == 1)
    claim(world.ok("api", "delete", "Book Club").text.strip() == "deleted Book Club")
    claim("no APIs" in world.ok("api", "list").text)
    claim(opened(url.replace("{id}", "7"))[0] == 404)


def test_wrong_apis_are_refused_with_the_cause(world):
    world.ok("deploy", world.file("closed.js", PAGE_JS))
    create = ["api", "create", "/a", "/b", "get", "closed"]
    world.refused(4, "is not a web action", arguments=create)
    world.refused(2, "BASE_PATH", arguments=["api", "create"])
    world.refused(2, "not JSON", arguments=["api", "create", "--swagger", world.file("bad.yaml", "swagger: 2\n")])
    world.refused(4, "there is no API", "flint api list", arguments=["api", "get", "/none"])
    world.refused(4, "does not exist", "flint api list", arguments=["api", "delete", "/none"])


def test_a_stream_reaches_anybody_with_its_status_and_headers(world):
    code = """exports.main = () => new Response((async function* () {
  for (let n = 0; n < 3; n++) yield `line ${n}\\n`;
})(), { status: 207, headers: { 'content-type': 'text/event-stream', 'x-mine': '1' } });
"""
    world.ok("deploy", world.file("web-stream.js", code), "--annotation", "web-export=true")
    with urllib.request.urlopen(world.ok("url", "web-stream").text.strip()) as answer:
        claim((answer.status, answer.headers["x-mine"], answer.headers["content-type"]) == (207, "1", "text/event-stream"), answer.headers)
        claim(answer.headers["access-control-allow-origin"] == "*" and len(answer.headers["x-openwhisk-activation-id"]) == 32, answer.headers)
        claim(answer.headers["content-length"] is None, "it is a stream")
        claim(answer.read() == b"line 0\nline 1\nline 2\n")


def test_a_function_that_speaks_http_gets_the_request_of_anybody(world):
    code = """require('http').createServer((request, response) => {
  let size = 0;
  request.on('data', (piece) => { size += piece.length; });
  request.on('end', () => {
    response.writeHead(418, { 'content-type': 'text/plain', 'x-path': request.url });
    response.end(`${request.method} ${size} ${request.headers['x-mine']}`);
  });
}).listen(process.env.PORT, '127.0.0.1');
"""
    world.ok("deploy", world.file("web-http.js", code), "--contract", "http", "--annotation", "web-export=true")
    url = world.ok("url", "web-http").text.strip()
    request = urllib.request.Request(f"{url}/a/b?q=1", data=b"x" * (2 << 20), headers={"x-mine": "yes"}, method="PUT")
    try:
        urllib.request.urlopen(request)
        claim(False, "its status is 418")
    except urllib.error.HTTPError as answer:
        body = answer.read().decode()
        claim((answer.code, answer.headers["x-path"], body) == (418, "/a/b?q=1", f"PUT {2 << 20} yes"), answer.code, body)
