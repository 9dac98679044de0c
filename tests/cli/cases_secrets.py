"""Secrets: given at the call, shown by nothing, with a key of their own."""

import os
import signal
import stat

from harness import Server, claim

LATE_AND_EARLY = """
const early = process.env.DB_PASSWORD === undefined ? 'not there' : 'there';
exports.main = () => ({ early, late: process.env.DB_PASSWORD, token: process.env.API_TOKEN });
"""
VALUE = "correct horse \"battery\" staple ü"


def files_with(directory, text):
    """The files below a directory that have some text."""
    found = []
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path) and os.path.isfile(path):
                with open(path, "rb") as file:
                    if text.encode() in file.read():
                        found.append(path)
    return found


def test_a_secret_is_given_at_the_call_and_is_in_no_snapshot(world):
    data = world.path("secrets-data")
    server = Server(world, data)

    def ok(*arguments, **options):
        return world.ok(*arguments, url=server.url, **options)

    refused = world.run("deploy", world.file("late.js", LATE_AND_EARLY), "--secret", "db-password", url=server.url)
    claim(refused.code == 4 and "flint secret set db-password" in refused.said, refused)
    ok("secret", "set", "db-password", "--file", world.file("value", VALUE + "\n"))
    ok("secret", "set", "token", "--raw", stdin=b"t\n")
    done = ok("deploy", world.path("late.js"), "--secret", "db-password", "--secret", "token=API_TOKEN", "--json").json()
    got = ok("invoke", "late").json()
    claim(got["late"] == VALUE and got["token"] == "t\n", got)
    if done["function"]["prepared"]["strategy"]["start"] == "fork":
        claim(got["early"] == "not there", "the snapshot was loaded without it")
    ok("secret", "set", "db-password", stdin=b"zweiter")
    claim(ok("invoke", "late").json()["late"] == "zweiter", "calls get the new value without a deploy")
    # By the annotation, as any client can write it; into programs of every sort.
    ok("deploy", world.file("sh-secret", "#!/bin/sh\nprintf %s \"$MINE\"\n", executable=True), "--annotation", 'flint-secrets=["db-password=MINE"]')
    claim(ok("invoke", "sh-secret").out == b"zweiter")
    # As long as a secret may be.
    ok("secret", "set", "large", stdin=b"x" * 65536)
    measure = world.file("measure", "#!/bin/sh\nprintf %s \"$LARGE\" | wc -c\n", executable=True)
    for reuse in ("never", "warm"):
        ok("deploy", measure, "--reuse", reuse, "--secret", "large")
        claim(ok("invoke", "measure").out.strip() == b"65536", reuse)
    ok("deploy", world.file("py_secret.py", "import os\ndef main(params):\n    return {'got': os.environ.get('DB_PASSWORD')}\n"), "--secret", "db-password")
    claim(ok("invoke", "py_secret").json() == {"got": "zweiter"})

    listed = ok("secret", "list")
    claim("db-password" in listed.text and "zweiter" not in listed.text, listed)
    for command in (["get", "late"], ["get", "late", "--json"], ["explain", "late"], ["secret", "list", "--json"], ["versions", "late", "--json"]):
        claim("zweiter" not in ok(*command).text, command)
    key = world.path("secrets-data") / "secrets.key"
    claim(stat.S_IMODE(key.stat().st_mode) == 0o600, oct(key.stat().st_mode))

    copy = world.path("secrets-copy")
    claim(world.bare("backup", copy, "--data-dir", data).code == 0)
    server.stop()
    claim(not os.path.exists(copy / "secrets.key"), "a backup has no key")
    hex_key = key.read_text().splitlines()[-1]
    for place in (data / "flint.db", copy):
        folder = place if place.is_dir() else place.parent
        having = [path for path in files_with(folder, "correct horse") + files_with(folder, hex_key) if not path.endswith("secrets.key")]
        # What a call answered is in its record: that is the function's own doing.
        claim(not [path for path in having if "activations" not in path], having)


def test_a_lost_key_is_said_and_a_key_is_changed(world):
    data = world.path("keys-data")
    server = Server(world, data)
    world.ok("secret", "set", "db-password", stdin=b"v1", url=server.url)
    world.ok("deploy", world.file("keyed.js", LATE_AND_EARLY), "--secret", "db-password", url=server.url)
    before = world.ok("secret", "list", "--json", url=server.url).json()["secrets"][0]["key"]
    done = world.bare("secret", "rotate-key", "--data-dir", data)
    claim(done.code == 0 and "1 secrets are encrypted with key" in done.text, done)
    after = world.ok("secret", "list", "--json", url=server.url).json()["secrets"][0]
    claim(after["key"] != before and after["readable"], after)
    claim(world.ok("invoke", "keyed", url=server.url).json()["late"] == "v1")
    # A namespace's key does not change everybody's.
    guest = "23bc46b1-71f6-4ed5-8c54-816aa4f8c502:123zO3xZCLrMN6v2BKK1dXYFpXlPkccOFqm12CdAsMgRU4VrNZ9lyGVCGuMDGIwP"
    world.refused(4, "operator", arguments=["secret", "rotate-key", "--auth", guest], url=server.url)
    # A data directory that is named is whose key it is, whatever key is set for other commands.
    done = world.bare("secret", "rotate-key", "--data-dir", data, "--auth", guest)
    claim(done.code == 0, done)
    after = world.ok("secret", "list", "--json", url=server.url).json()["secrets"][0]
    server.signal(signal.SIGKILL)
    server.wait()

    hidden = data / "elsewhere"
    (data / "secrets.key").rename(hidden)
    server = Server(world, data)
    done = world.run("invoke", "keyed", "--json", url=server.url)
    claim(done.code == 1 and "db-password" in done.text and after["key"] in done.text, done)
    world.refused(4, after["key"], arguments=["secret", "set", "other"], stdin=b"x", url=server.url)
    claim("its key is not here" in world.ok("secret", "list", url=server.url).text)
    server.stop()

    # The key from the environment, and a new one in front of it.
    old = [line for line in hidden.read_text().splitlines() if not line.startswith("#")][0]
    for keys in (old, "ab" * 32 + "," + old, "ab" * 32):
        server = Server(world, data, "--set", "secrets.key_env=MY_KEYS", env={"MY_KEYS": keys})
        claim(world.ok("invoke", "keyed", url=server.url).json()["late"] == "v1", keys[:4])
        server.stop()
    refused = world.bare("secret", "rotate-key", "--data-dir", data, "--set", "secrets.key_env=MY_KEYS", environment=world.environment({"MY_KEYS": "ab" * 32}))
    claim(refused.code == 4 and "MY_KEYS" in refused.said and "openssl rand" in refused.said, refused)


def test_what_cannot_be_a_secret_is_refused(world):
    world.refused(2, "cannot be the name of a secret", arguments=["secret", "set", "a b"], stdin=b"x")
    world.refused(2, "is empty", arguments=["secret", "set", "empty"], stdin=b"\n")
    world.refused(4, "without NUL", arguments=["secret", "set", "nul"], stdin=b"a\0b")
    world.refused(4, "65536", arguments=["secret", "set", "long"], stdin=b"x" * 65_537)
    world.refused(2, "cannot be the variable", arguments=["deploy", world.file("x.js", "exports.main = () => ({});"), "--secret", "a=__OW_API_KEY"])
    world.refused(4, "there is no secret 'none'", "flint secret list", arguments=["secret", "rm", "none"])
