"""Bad input: each ends with the documented exit code and names its cause and the next step."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import claim


def test_wrong_usage_is_exit_code_2(world):
    bad_zip = world.file("bad.zip", "not a zip")
    empty = world.file("empty.js", "")
    latin = world.file("latin.py", b"\xff\xfe\xfa")
    notes = world.file("notes.txt", "hello")
    world.path("hollow").mkdir()
    world.file("mystery/data.csv", "1,2")
    world.file("mistyped/index.js", "x")
    world.file("mistyped/flint.toml", "memroy = 1")
    hello = world.file("hello.js", "exports.main = () => ({});")
    for arguments, parts in [
        (["frobnicate"], ["frobnicate"]),
        (["deploy", "/no/such/file.js"], ["/no/such/file.js"]),
        (["deploy", notes], ["cannot tell what", "executable"]),
        (["deploy", world.file("typed.ts", "export const main = () => ({});")], ["cannot tell what", "TypeScript", "esbuild"]),
        (["deploy", empty], ["is empty"]),
        (["deploy", latin], ["not UTF-8"]),
        (["deploy", bad_zip], ["not a zip archive"]),
        (["deploy", world.path("hollow")], ["no files"]),
        (["deploy", world.path("mystery")], ["which runtime", "--kind"]),
        (["deploy", world.path("mistyped")], ["memroy", "flint.toml"]),
        (["deploy", hello, "--timeout", "60"], ["'60' is not a time"]),
        (["deploy", hello, "--memory", "much"], ["'much'"]),
        (["deploy", hello, "--start", "teleport"], ["teleport", "spawn"]),
        (["deploy", hello, "--name", ""], ["--name", "is empty"]),
        (["deploy", "-f", world.file("stack.yml", "provider:\n  name: openfaas\nfunctions: {}\n")], ["OpenFaaS", "docs/manifests.md"]),
        (["deploy", hello, "--param", "novalue"], ["no '='"]),
        (["invoke", "x", "-p", "=1"], ["no key"]),
        (["invoke", "x", "-P", notes], ["not JSON"]),
        (["invoke", "x", "-P", world.file("list.json", "[1]")], ["not a JSON object"]),
        (["invoke", "x", "-f", "/no/such/photo.jpg"], ["/no/such/photo.jpg"]),
        (["invoke", "x", "-H", "nonsense"], ["'Name: value'"]),
        (["logs", "0" * 32, "-f"], ["is one call", "flint logs FUNCTION -f"]),
        (["package", "list", "/"], ["is not a namespace"]),
        (["package", "list", "/whisk.system/alarms"], ["is not a namespace", "flint package get"]),
        (["list", "--url", "ftp://x"], ["ftp"]),
        (["list", "--url", "https://127.0.0.1:1"], ["TLS"]),
        (["list", "--auth", "hunter2"], ["not a key"]),
        (["config", "--set", "limits.max_memroy=1"], ["limits.max_memroy", "limits.max_memory"]),
        (["config", "--set", "pool.keep_alive=soon"], ["'soon' is not a duration"]),
        (["config", "--config", "/no/such/flint.toml"], ["/no/such/flint.toml"]),
        (["config", "no-key-has-this"], ["no-key-has-this"]),
        (["bench", "load", "x", "--closed", "2", "--duration", "0s"], ["--duration", "no time at all"]),
        (["bench", "load", "x", "--timeout", "0s"], ["--timeout", "no time at all"]),
        (["bench", "no-such-experiment"], ["no-such-experiment", "available"]),
    ]:
        world.refused(2, *parts, arguments=arguments)


def test_wrong_usage_is_json_with_json(world):
    for arguments in (["--json", "invoke"], ["--json", "package"], ["frobnicate", "--json"], ["invoke", "x", "--json", "-p", "novalue"]):
        done = world.refused(2, arguments=arguments)
        error = json.loads(done.said)["error"]
        claim(error["code"] == "usage" and error["message"] and not done.out, done)


def test_limits_within_which_nothing_fits_are_refused_at_the_start(world):
    for setting, part in (("limits.max_memory=1", "limits.min_memory"), ("limits.max_timeout=1s", "defaults.timeout")):
        done = world.bare("up", "--listen", "127.0.0.1:0", "--data-dir", world.path("narrow"), "--set", setting)
        claim(done.code == 2 and part in done.said and not world.path("narrow").exists(), done)


def test_variables_that_are_empty_count_as_not_set(world):
    world.ok("list", env={"FLINT_AUTH": ""})
    claim(world.bare("config", "log", environment=world.environment({"FLINT_CONFIG": ""})).code == 0)
    # Whether or not a server is at the usual address.
    done = world.bare("list", environment=world.environment({"FLINT_URL": ""}))
    claim(done.code != 2 and "is not the address" not in done.said, done)
    world.refused(2, "not a key", arguments=["list", "--auth", ""])
    world.refused(2, "not the address", arguments=["list", "--url", ""])


def test_no_server_is_exit_code_3(world):
    world.refused(3, "no answer from", "flint up", arguments=["list", "--url", "http://127.0.0.1:1"])


class Another(BaseHTTPRequestHandler):
    """A server that answers everything, and is not Flint."""

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"<html>")

    do_PUT = do_POST = do_GET

    def log_message(self, *_):
        pass


def test_an_answer_of_another_server_is_exit_code_4(world):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Another)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    hello = world.file("hello.js", "exports.main = () => ({});")
    try:
        for arguments in (
            ["list"],
            ["deploy", hello],
            ["secret", "set", "password", "--file", hello],
            ["api", "list"],
            ["api", "create", "/club", "/books", "get", "books"],
            ["sequence", "list"],
        ):
            done = world.refused(4, arguments=["--json", *arguments], url=url)
            error = json.loads(done.said)["error"]
            claim(error["code"] == "unexpected_answer" and "flint --version" in error["hint"], done)
    finally:
        server.shutdown()
        server.server_close()


def test_a_refusal_of_the_server_is_exit_code_4(world):
    hello = world.file("hello.js", "exports.main = () => ({});")
    key = "00000000-0000-4000-8000-000000000000:" + "x" * 64
    for arguments, parts in [
        (["invoke", "no-such-function"], ["there is no function 'no-such-function' in namespace 'guest'", "flint list"]),
        (["get", "no-such-function"], ["there is no function"]),
        (["rm", "no-such-function"], ["there is no function"]),
        (["logs", "no-such-function"], ["there is no function"]),
        (["explain", "no-such-function"], ["there is no function"]),
        (["logs", "0" * 32], ["no record of activation"]),
        (["explain", "01a1fd48"], ["there is no function '01a1fd48'", "32 hex digits, not 8", "flint activations"]),
        (["logs", "0" * 31], ["32 hex digits, not 31", "flint activations"]),
        (["logs", "-f", "0" * 33], ["32 hex digits, not 33", "flint activations"]),
        (["get", "a/b/c/d"], ["cannot be the name of a function"]),
        (["deploy", hello, "--name=-bad-"], ["cannot be the name of a function"]),
        (["deploy", hello, "--memory", "64GB"], ["memory size 65536 MB exceeds", "flint config limits"]),
        (["deploy", hello, "--timeout", "1000m"], ["duration", "exceeds"]),
        (["deploy", hello, "--kind", "cobol"], ["'cobol'", "nodejs", "flint doctor"]),
        (["deploy", hello, "--isolation", "microvm"], ["microvm", "flint doctor"]),
        (["list", "--auth", key], ["key"]),
        (["invoke", "x", "--auth", key], ["key"]),
    ]:
        world.refused(4, *parts, arguments=arguments)


def test_an_activation_id_in_place_of_a_function_is_told_what_shows_it(world):
    claim(f"flint explain {'0' * 32}" in world.ok("activations", "0" * 32).text)


def test_errors_are_json_when_json_is_asked_for(world):
    import json

    done = world.run("--json", "invoke", "no-such-function")
    error = json.loads(done.said)["error"]
    claim(done.code == 4 and error["code"] == "not_found" and error["message"] and error["hint"], done)


def deployed_or_called(world, name, path):
    """Code that does not load is refused when it is made ready for forks, and otherwise fails when it is called."""
    done = world.run("deploy", path)
    return world.run("invoke", name) if done.code == 0 else done


def test_each_error_is_json_of_its_own(world):
    done = world.run("--json", "rm", "no-such-1", "no-such-2", "no-such-3")
    codes = [json.loads(line)["error"]["code"] for line in done.said.splitlines()]
    claim(done.code == 4 and codes == ["not_found"] * 3 and done.json() == {"deleted": []}, done)
    # The words of the code are those of the documentation, whichever API is asked.
    done = world.run("--json", "api", "create", "/x", "/y", "get", "no-such-function")
    claim(done.code == 4 and json.loads(done.said)["error"]["code"] in ("invalid", "not_found"), done)
    done = world.run("--json", "api", "list", env={"FLINT_AUTH": "00000000-0000-4000-8000-000000000000:" + "x" * 64})
    claim(done.code == 4 and json.loads(done.said)["error"]["code"] == "unauthenticated", done)


def test_commands_of_other_platforms_are_named_as_they_are_here(world):
    for arguments, part in ((["action", "create", "x"], "flint deploy"), (["delete", "x"], "flint rm"), (["package", "update", "x"], "--update")):
        world.refused(2, "unrecognized subcommand", part, arguments=arguments)


def test_what_is_for_a_manifest_deploys_no_function(world):
    path = world.file("rehearsed.js", "exports.main = () => ({});")
    for option in (["--dry-run"], ["--prune"], ["--show-values"], ["--project", "p"], ["--deployment", path]):
        world.refused(2, option[0], "flint deploy -f", arguments=["deploy", path, *option])
    world.refused(4, "there is no function", arguments=["get", "rehearsed"])


def test_a_name_that_is_empty_is_no_name(world):
    """As a script has it whose variable was not set."""
    for command in (
        "get",
        "rm",
        "explain",
        "logs",
        "activations",
        "invoke",
        "url",
        "versions",
        "rollback",
        "alias list",
        "sequence get",
        "sequence rm",
        "api list",
        "api delete",
        "api delete /club",
        "api create /club /books get",
        "rule create r t",
        "namespace create x --subject",
        "namespace keys x --add --subject",
        "dlq list --function",
        "dlq rm --function",
        "package list",
        "namespace rm --yes",
        "namespace keys x --remove",
        "bench load",
    ):
        world.refused(2, "it is empty", arguments=[*command.split(), ""])
    world.refused(2, "it is empty", arguments=["sequence", "create", "s", "a,,b"])


def test_where_an_answer_cannot_be_written_no_call_is_made(world):
    world.ok("deploy", world.file("written.js", "exports.main = () => ({});"))
    missing = world.path("no-such-directory") / "out"
    for arguments in (["invoke", "written", "-o"], ["get", "written", "--save"]):
        done = world.refused(5, str(missing), "No such file", "make the directory", arguments=[*arguments, missing])
        claim(".flint-" not in done.said, done)
        world.refused(5, "is a directory", arguments=[*arguments, world.scratch])
        world.refused(2, "standard output", "./-", arguments=[*arguments, "-"])
    world.refused(2, "--async", arguments=["invoke", "written", "--async", "-o", world.path("out")])
    listed = world.ok("activations", "written", "--json").json()
    claim(listed["activations"] == [], listed)


def test_what_is_not_there_is_named_with_the_next_step(world):
    hello = world.file("hello.js", "exports.main = () => ({});")
    world.ok("deploy", hello)
    for arguments, parts in [
        (["trigger", "fire", "no-such"], ["there is no trigger 'no-such'", "flint trigger list"]),
        (["trigger", "pause", "no-such"], ["there is no trigger 'no-such'"]),
        (["rule", "delete", "no-such"], ["there is no rule 'no-such'", "flint rule list"]),
        (["package", "get", "no-such"], ["there is no package 'no-such'", "flint package list"]),
        (["deploy", hello, "--name", "no-such/hello"], ["there is no package 'no-such'", "flint package create no-such"]),
        (["sequence", "create", "no-such/s", "hello"], ["there is no package 'no-such'", "flint package create no-such"]),
    ]:
        world.refused(4, *parts, arguments=arguments)


def test_options_of_other_tools_are_named_as_they_are_here(world):
    for arguments, part in ((["deploy", "x.js", "-p", "a=b"], "--param"), (["invoke", "x", "name=you"], "-p KEY=VALUE"), (["deploy", "x", "x.js"], "--name NAME"), (["up", "--port", "1"], "--listen")):
        world.refused(2, "unexpected argument", part, arguments=arguments)


def test_a_pattern_that_is_none_lets_nothing_through(world):
    world.file("leaky/index.js", "exports.main = () => ({});")
    world.file("leaky/.flintignore", "secrets[z-a].env\n")
    world.refused(2, ".flintignore", "secrets[z-a].env", arguments=["deploy", world.path("leaky")])


def test_syntax_errors_are_found_with_their_place(world):
    done = deployed_or_called(world, "broken", world.file("broken.py", "def main(params)\n    return {}\n"))
    claim(done.code in (1, 4) and ("SyntaxError" in done.text + done.said or "expected ':'" in done.text + done.said), done)


def test_a_main_that_is_not_there_is_named(world):
    done = deployed_or_called(world, "entryless", world.file("entryless.js", "exports.other = () => ({});\n"))
    claim(done.code in (1, 4) and "main" in done.text + done.said, done)


def test_a_payload_over_the_limit_is_refused(world):
    world.ok("deploy", world.file("sink.js", "exports.main = () => ({});\n"))
    big = world.file("big.json", '{"a": "' + "x" * (1 << 20) + '"}')
    world.refused(4, "larger than", arguments=["invoke", "sink", "-P", big])
