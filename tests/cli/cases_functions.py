"""Deploying, listing, reading and deleting functions."""

import io
import json
import os
import zipfile

from harness import COMMAND_WITHIN_S, claim

HELLO_JS = "exports.main = ({ name = 'world' }) => ({ hello: name });\n"
HELLO_PY = "def main(params):\n    return {'hello': params.get('name', 'world')}\n"


def test_a_file_is_deployed_called_listed_shown_and_deleted(world):
    done = world.ok("deploy", world.file("first.js", HELLO_JS), "--memory", "128MB", "--timeout", "5s", "--param", "name=default")
    claim("created first 0.0.1" in done.text, done)
    claim(world.ok("invoke", "first").json() == {"hello": "default"}, "the default argument is used")
    claim(world.ok("invoke", "first", "-p", "name=you").json() == {"hello": "you"}, "an argument overrides it")
    listed = world.ok("list", "--json").json()
    claim([f for f in listed["functions"] if f["name"] == "first" and f["limits"]["memory_mb"] == 128], listed)
    claim("first" in world.ok("list").text, "the table has it")
    shown = world.ok("get", "first", "--json").json()
    claim(shown["limits"]["timeout_ms"] == 5000 and shown["parameters"] == [{"key": "name", "value": "default"}], shown)
    text = world.ok("get", "first").text
    claim("nodejs:" in text and "128 MB" in text and 'name = "default"' in text, text)
    done = world.ok("deploy", world.file("first.js", HELLO_JS.replace("hello", "bye")))
    claim("updated first 0.0.2" in done.text, done)
    claim("bye" in world.ok("invoke", "first").json(), "the new code runs")
    claim(world.ok("rm", "first").text.strip() == "deleted first")
    world.refused(4, "there is no function 'first'", "flint list", arguments=["invoke", "first"])


def test_the_code_comes_back_as_it_was(world):
    world.ok("deploy", world.file("kept.js", HELLO_JS))
    out = world.path("kept-again.js")
    world.ok("get", "kept", "--save", out)
    claim(out.read_text() == HELLO_JS)
    done = world.ok("get", "kept", "--save", out, "--json")
    claim(done.json() == {"saved": str(out), "size": len(HELLO_JS)} and not done.said, done)
    # What is there is replaced as a whole, or not at all.
    again = os.stat(out).st_ino
    world.ok("get", "kept", "--save", out)
    claim(os.stat(out).st_ino != again and out.read_text() == HELLO_JS)


def test_kinds_are_told_by_extension(world):
    for name, content, family in [("by-ext.mjs", "export const main = () => ({ ok: 1 });\n", "nodejs"), ("by-ext-py.py", HELLO_PY, "python")]:
        result = world.ok("deploy", world.file(name, content), "--json").json()
        claim(result["function"]["kind"].startswith(family), result)
        claim(world.ok("invoke", result["function"]["name"]).code == 0)


def test_an_executable_takes_stdin_and_answers_on_stdout(world):
    world.ok("deploy", world.file("upper", "#!/bin/sh\ntr a-z A-Z\n", executable=True))
    done = world.ok("invoke", "upper", "-f", "-", stdin=b"shout\n")
    claim(done.out == b"SHOUT\n", done)


def test_a_directory_is_packed_with_its_modules_and_without_what_is_ignored(world):
    world.file("dir/index.js", "const fs = require('fs');\nexports.main = () => ({ files: fs.readdirSync(__dirname).sort(), dep: require('dep') });\n")
    world.file("dir/node_modules/dep/index.js", "module.exports = 'found';\n")
    world.file("dir/secret.env", "x")
    world.file("dir/.git/config", "x")
    world.file("dir/.flintignore", "*.env\n")
    world.file("dir/flint.toml", "name = 'packed'\n[limits]\nmemory = '256MB'\n[params]\na = 1\n")
    os.symlink("/etc/hostname", world.path("dir/outside"))
    done = world.ok("deploy", world.path("dir"))
    claim("created packed" in done.text and "outside" in done.said, done)
    answer = world.ok("invoke", "packed").json()
    claim(answer == {"dep": "found", "files": ["index.js", "node_modules"]}, answer)
    first = world.ok("get", "packed", "--json").json()["code"]["digest"]
    os.utime(world.path("dir/index.js"), (0, 0))
    world.ok("deploy", world.path("dir"))
    claim(world.ok("get", "packed", "--json").json()["code"]["digest"] == first, "the same files make the same archive")


def test_a_zip_is_deployed_as_it_is(world):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("__main__.py", HELLO_PY)
    result = world.ok("deploy", world.file("zipped.zip", out.getvalue()), "--json").json()
    claim(result["function"]["code"]["format"] == "zip" and result["function"]["kind"].startswith("python"), result)
    claim(world.ok("invoke", "zipped", "-p", "name=zip").json() == {"hello": "zip"})


def test_init_parameters_go_to_the_environment(world):
    world.ok("deploy", world.file("env.js", "exports.main = () => ({ token: process.env.TOKEN });\n"), "--init-param", "TOKEN=t-1")
    claim(world.ok("invoke", "env").json() == {"token": "t-1"})


def test_explain_says_how_a_function_runs_and_where_time_went(world):
    world.ok("deploy", world.file("why.js", HELLO_JS))
    text = world.ok("explain", "why").text
    claim("process" in text and "spawn" in text and "because" in text, text)
    record = world.ok("invoke", "why", "--json").json()
    text = world.ok("explain", record["id"]).text
    claim("admit" in text and "run" in text and "in all" in text and record["id"] in text, text)
    claim(world.ok("explain", record["id"], "--json").json()["timeline"]["ran"] > 0)


def test_deploys_of_one_name_at_once_all_succeed(world):
    code = world.file("same.js", "exports.main = () => ({ same: true });\n")
    running = [world.start("deploy", code, "--name", "deployed-at-once", "--json") for _ in range(6)]
    for one in running:
        one.process.wait(COMMAND_WITHIN_S)
        claim(one.process.returncode == 0, one.text())
    created = [json.loads(one.text())["created"] for one in running]
    claim(sorted(created) == [False] * 5 + [True], created)
    claim(world.ok("invoke", "deployed-at-once").json() == {"same": True}, "it works")
