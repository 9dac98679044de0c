"""Versions of functions: side by side, by alias, by weight, and back again."""

import base64
import json
import signal
import urllib.error
import urllib.request

from harness import Server, claim

GUEST = "23bc46b1-71f6-4ed5-8c54-816aa4f8c502:123zO3xZCLrMN6v2BKK1dXYFpXlPkccOFqm12CdAsMgRU4VrNZ9lyGVCGuMDGIwP"


def deploy(world, name, number, url=None):
    """A version that answers with its number and with what its environment says about it."""
    code = f"exports.main = () => ({{ n: {number}, version: process.env.__OW_ACTION_VERSION }});\n"
    return world.ok("deploy", world.file(f"{name}.js", code), "--json", url=url).json()["function"]["version"]


def answer(world, name, url=None):
    return world.ok("invoke", name, url=url).json()


def ran(world, name, url=None):
    """The version that a call's record says."""
    return world.ok("invoke", name, "--json", url=url).json()["version"]


def test_versions_run_side_by_side_and_a_rollback_is_a_new_one(world):
    for number in (1, 2, 3):
        claim(deploy(world, "paged", number) == f"0.0.{number}")
    for number in (1, 2, 3, 1):
        got = answer(world, f"paged@0.0.{number}")
        claim(got == {"n": number, "version": f"0.0.{number}"}, got)
    claim(ran(world, "paged@0.0.2") == "0.0.2" and ran(world, "paged") == "0.0.3")
    listed = world.ok("versions", "paged", "--json").json()["versions"]
    claim([v["version"] for v in listed] == ["0.0.3", "0.0.2", "0.0.1"], listed)
    claim(listed[0]["newest"] and len({v["code"]["digest"] for v in listed}) == 3, listed)
    world.refused(4, "paged@0.0.9", "flint versions paged", arguments=["invoke", "paged@0.0.9"])
    for version in ("0.0.1", "0.0.9"):
        world.refused(4, "not by version", "'paged'", arguments=["activations", f"paged@{version}"])
    claim("no calls of 'nothing@0.0.9' are recorded" in world.ok("activations", "nothing@0.0.9").text)

    done = world.ok("rollback", "paged")
    claim(done.text.strip() == "paged 0.0.4 is 0.0.2 again", done)
    claim(answer(world, "paged")["n"] == 2 and ran(world, "paged") == "0.0.4")
    claim("0.0.2 again" in world.ok("get", "paged").text and "0.0.2 again" in world.ok("versions", "paged").text)
    world.ok("rollback", "paged", "--to", "0.0.1")
    claim(answer(world, "paged") == {"n": 1, "version": "0.0.5"})
    world.refused(4, "there is no guest/paged@0.0.9", "flint versions paged", arguments=["rollback", "paged", "--to", "0.0.9"])
    world.refused(2, "not a version", arguments=["rollback", "paged", "--to", "one"])
    out = world.path("paged-3.js")
    world.ok("get", "paged@0.0.3", "--save", out)
    claim("n: 3" in out.read_text())


def test_aliases_spread_calls_and_live_is_what_the_bare_name_means(world):
    for number in (1, 2):
        deploy(world, "split", number)
    done = world.ok("alias", "set", "split", "canary", "0.0.1=1", "0.0.2=1")
    claim("split@canary is 0.0.1 (50%), 0.0.2 (50%)" in done.text, done)
    claim({answer(world, "split@canary")["n"] for _ in range(40)} == {1, 2}, "both versions get calls")
    claim(answer(world, "split")["n"] == 2)
    world.ok("alias", "set", "split", "live", "0.0.1")
    claim(answer(world, "split")["n"] == 1)
    claim(deploy(world, "split", 3) == "0.0.3" and answer(world, "split")["n"] == 1, "a deploy is no release then")
    text = world.ok("alias", "list", "split").text
    claim("canary" in text and "live" in text, text)
    world.refused(4, "live", "flint rollback split --to VERSION", arguments=["rollback", "split"])
    world.ok("rollback", "split", "--to", "0.0.2")
    claim(answer(world, "split") == {"n": 2, "version": "0.0.4"})
    world.ok("alias", "rm", "split", "canary")
    world.refused(4, "split@canary", arguments=["invoke", "split@canary"])
    world.refused(4, "there is no guest/split@0.0.9", arguments=["alias", "set", "split", "a", "0.0.9"])
    world.refused(2, "cannot be the name of an alias", arguments=["alias", "set", "split", "0.0.1", "0.0.1"])
    world.ok("rm", "split")
    deploy(world, "split", 9)
    claim(answer(world, "split")["n"] == 9 and world.ok("alias", "list", "split", "--json").json() == {"aliases": []})


def test_the_openwhisk_api_calls_versions_by_name_and_knows_exact_names_otherwise(world):
    for number in (1, 2):
        deploy(world, "wsk-f", number)

    def ask(method, path, body=None):
        request = urllib.request.Request(f"{world.server.url}/api/v1/namespaces/_/actions/{path}", method=method)
        request.add_header("Authorization", "Basic " + base64.b64encode(GUEST.encode()).decode())
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, data=None if body is None else json.dumps(body).encode(), timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    status, record = ask("POST", "wsk-f@0.0.1?blocking=true", {})
    claim(status == 200 and record["version"] == "0.0.1" and record["name"] == "wsk-f" and record["response"]["result"]["n"] == 1, record)
    claim(ask("POST", "wsk-f@0.0.7?blocking=true", {})[0] == 404)
    claim(ask("GET", "wsk-f@0.0.1")[0] == 404 and ask("DELETE", "wsk-f@0.0.1")[0] == 404)
    claim(ask("GET", "wsk-f")[1]["version"] == "0.0.2")
    # A function of that very name comes first.
    own = {"exec": {"kind": "nodejs:default", "code": "exports.main = () => ({ n: 'its own' });"}}
    claim(ask("PUT", "wsk-f@0.0.1", own)[0] == 200)
    claim(ask("POST", "wsk-f@0.0.1?blocking=true&result=true", {})[1] == {"n": "its own"})
    claim(ask("DELETE", "wsk-f@0.0.1")[0] == 200)
    claim(ask("POST", "wsk-f@0.0.1?blocking=true&result=true", {})[1]["n"] == 1)


def test_versions_survive_kill_9_and_go_into_a_backup(world):
    data = world.path("versions-data")
    server = Server(world, data, "--set", "versions.keep=2")
    for number in (1, 2, 3, 4):
        deploy(world, "kept", number, url=server.url)
    world.ok("alias", "set", "kept", "old", "0.0.2", url=server.url)
    deploy(world, "kept", 5, url=server.url)
    server.signal(signal.SIGKILL)
    server.wait()
    server = Server(world, data, "--set", "versions.keep=2")
    listed = [v["version"] for v in world.ok("versions", "kept", "--json", url=server.url).json()["versions"]]
    claim(listed == ["0.0.5", "0.0.4", "0.0.3", "0.0.2"], listed)
    claim(answer(world, "kept@old", url=server.url)["n"] == 2)
    copy = world.path("versions-copy")
    claim(world.bare("backup", copy, "--data-dir", data).code == 0)
    server.stop()
    elsewhere = world.path("versions-elsewhere")
    claim(world.bare("restore", copy, "--data-dir", elsewhere).code == 0)
    server = Server(world, elsewhere)
    claim(answer(world, "kept@old", url=server.url)["n"] == 2 and answer(world, "kept", url=server.url)["n"] == 5)
    world.ok("rollback", "kept", "--to", "0.0.3", url=server.url)
    claim(answer(world, "kept", url=server.url) == {"n": 3, "version": "0.0.6"})
    server.stop()
