"""Namespaces, keys, and who may reach the server."""

import subprocess
import time

from harness import Server, claim, eventually, free_port

HELLO = "exports.main = () => ({ ok: true });\n"


def test_a_namespace_is_made_before_the_first_start_and_used_after_it(world):
    data = world.path("tenants-data")
    made = world.bare("namespace", "create", "shop", "--data-dir", data)
    key = made.text.strip()
    claim(len(key) == 36 + 1 + 64, key)
    claim(f"no data in {data}; it is made" in made.said, made)
    listed = world.bare("namespace", "list", "--data-dir", data, "--json").json()["namespaces"]
    claim([namespace["name"] for namespace in listed] == ["shop"] and len(listed[0]["keys"]) == 1, listed)
    server = Server(world, data)
    shop = {"FLINT_AUTH": key}
    claim(world.ok("deploy", world.file("mine.js", HELLO), url=server.url, env=shop).code == 0)
    claim(world.ok("invoke", "mine", url=server.url, env=shop).json() == {"ok": True})
    world.refused(4, "there is no function 'mine' in namespace 'guest'", arguments=["get", "mine"], url=server.url)

    # While the server runs, the same commands go to it.
    claim("invocationsPerMinute 1" in world.bare("namespace", "limits", "shop", "--invocations-per-minute", "1", "--data-dir", data).text)
    codes = [world.run("invoke", "mine", url=server.url, env=shop) for _ in range(3)]
    claim(any(done.code == 4 and "Too many requests in the last minute" in done.said and "flint namespace limits" in done.said for done in codes), *codes)
    world.bare("namespace", "limits", "shop", "--reset", "--data-dir", data)
    claim("blocked" in world.bare("namespace", "block", "shop", "--data-dir", data).text)
    world.refused(4, "key", arguments=["list"], url=server.url, env=shop)
    world.bare("namespace", "block", "shop", "--undo", "--data-dir", data)
    claim(world.ok("list", url=server.url, env=shop).code == 0)
    second = world.bare("namespace", "keys", "shop", "--add", "--subject", "ci", "--data-dir", data).text.strip()
    claim(world.ok("list", url=server.url, env={"FLINT_AUTH": second}).code == 0)
    world.bare("namespace", "keys", "shop", "--remove", second.split(":")[0], "--data-dir", data)
    world.refused(4, "key", arguments=["list"], url=server.url, env={"FLINT_AUTH": second})
    for arguments, code, part in [
        (["create", "shop"], 4, "already"),
        (["keys", "nobody"], 4, "no namespace 'nobody'"),
        (["create", "-bad-"], 2, ""),
        (["create", "bad/name"], 4, "cannot be the name of a namespace"),
        (["create", "_"], 4, "the caller's own"),
        (["create", "subj", "--subject", "a/b"], 4, ""),
        (["create", "subj", "--allowed-kinds", "nodejs,cobol"], 4, "no kind 'cobol'. Valid are nodejs, python"),
        (["limits", "shop", "--allowed-kinds", "node:20"], 4, "no kind 'node:20'"),
        (["keys", "subj"], 4, "no namespace 'subj'"),
        (["rm", "shop"], 2, "--yes"),
    ]:
        done = world.bare("namespace", *arguments, "--data-dir", data)
        claim(done.code == code and part in done.said, done)
    claim("deleted namespace shop" in world.bare("namespace", "rm", "shop", "--yes", "--data-dir", data).text)
    world.refused(4, "key", arguments=["list"], url=server.url, env=shop)
    claim(world.run("namespace", "list", "--auth", key, "--url", server.url).code == 4, "a namespace's key does not manage namespaces")
    server.stop()


def test_a_namespace_that_is_refused_makes_no_data(world):
    data = world.path("refused-data")
    for arguments, part in [
        (["bad/name"], "cannot be the name of a namespace"),
        (["shop", "--subject", "a/b"], ""),
        (["shop", "--allowed-kinds", "cobol"], "no kind 'cobol'"),
        (["shop", "--min-action-memory", "512", "--max-action-memory", "256"], "nothing would be allowed"),
    ]:
        done = world.bare("namespace", "create", *arguments, "--data-dir", data)
        claim(done.code == 4 and part in done.said and not data.exists(), done)
    # The bounds are those of the server's configuration.
    bounds = ["--set", "limits.min_memory=512MB", "--set", "limits.max_memory=1GB", "--set", "defaults.memory=512MB"]
    done = world.bare("namespace", "create", "shop", "--max-action-memory", "256", *bounds, "--data-dir", data)
    claim(done.code == 4 and "minActionMemory is 512" in done.said and not data.exists(), done)
    claim(world.bare("namespace", "create", "shop", "--data-dir", data).code == 0 and data.exists(), data)


def test_what_is_not_confirmed_opens_no_data(world):
    data = world.path("unconfirmed-data")
    claim(world.bare("namespace", "create", "shop", "--data-dir", data).code == 0)
    (data / "operator.json").unlink()  # whoever opens the data makes one
    done = world.bare("namespace", "rm", "shop", "--data-dir", data)
    claim(done.code == 2 and "--yes" in done.said and not (data / "operator.json").exists(), done)
    claim(world.bare("namespace", "rm", "shop", "--yes", "--data-dir", data).code == 0)


def test_nobody_from_outside_comes_in_before_there_is_a_key(world):
    data = world.path("outside-data")
    port = free_port()
    done = world.bare("up", "--listen", f"0.0.0.0:{port}", "--data-dir", data)
    claim(done.code == 2 and "no key exists yet" in done.said and "flint namespace create" in done.said, done)
    claim(not data.exists(), "nothing is left of a start that failed")
    key = world.bare("namespace", "create", "public", "--data-dir", data).text.strip()
    log = world.path("outside.log")
    with open(log, "wb") as out:
        process = subprocess.Popen([world.flint, "up", "--listen", f"0.0.0.0:{port}", "--data-dir", str(data)], stdout=out, stderr=out, env=world.environment())
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 180
        while world.run("list", url=url, env={"FLINT_AUTH": key}).code != 0:
            claim(process.poll() is None and time.monotonic() < deadline, log.read_text())
            time.sleep(0.1)
        world.refused(4, "key", arguments=["list"], url=url)  # the guest key
        claim("guest" not in log.read_text(), log.read_text())
        eventually("it says that a key is needed", lambda: "export FLINT_AUTH=KEY" in log.read_text())
    finally:
        process.terminate()
        process.wait(120)
