"""Calls and what comes of them."""

import os
import urllib.request

from harness import Server, claim, eventually

MODES = """exports.main = ({ mode, __body, body, query, contentType }) => {
  console.log('mode', mode);
  if (mode === 'app') return { error: 'mine' };
  if (mode === 'throw') throw new Error('bad');
  if (mode === 'exit') process.exit(3);
  if (mode === 'loop') for (;;);
  if (mode === 'bytes') return new Response(Buffer.from([0, 1, 2, 255]), { headers: { 'content-type': 'application/octet-stream' } });
  if (mode === 'teapot') return new Response('short and stout', { status: 418, headers: { 'content-type': 'text/plain' } });
  if (body) return { size: body.length, query, contentType };
  return { mode: mode ?? null };
};
"""


def modes(world, timeout="60s"):
    world.ok("deploy", world.file("modes.js", MODES), "--timeout", timeout)


def test_exit_code_1_when_the_function_fails(world):
    modes(world)
    for mode, status, part in [
        ("app", "application_error", "mine"),
        ("throw", "developer_error", "bad"),
        ("exit", "developer_error", "exited unexpectedly"),
        ("loop", "developer_error", "time limit"),
    ]:
        if mode == "loop":  # the others are not to meet their time limit, however busy the machine is
            modes(world, timeout="2s")
        done = world.run("invoke", "modes", "-p", f"mode={mode}")
        claim(done.code == 1 and part in done.text and "flint logs" in done.said, done)
        done = world.run("invoke", "modes", "-p", f"mode={mode}", "--json")
        claim(done.code == 1 and done.json()["status"] == status, done)

    def works_again():
        done = world.run("invoke", "modes")
        claim(done.code == 0 or "time limit" in done.text, done)  # loading has the same limit
        return done.code == 0 and done

    claim(eventually("it works again after all that", works_again).json() == {"mode": None})


def test_values_are_json_when_they_read_as_json(world):
    world.ok("deploy", world.file("echo.js", "exports.main = (params) => params;\n"))
    done = world.ok("invoke", "echo", "-p", "n=1", "-p", "s=one", "-p", 'l=[1,"a"]', "-p", "z=007")
    claim(done.json() == {"n": 1, "s": "one", "l": [1, "a"], "z": "007"}, done)
    done = world.ok("invoke", "echo", "-P", world.file("params.json", '{"a": 1, "n": 2}'), "-p", "n=3")
    claim(done.json() == {"a": 1, "n": 3}, done)
    done = world.ok("invoke", "echo", "-P", "-", stdin=b'{"in": true}')
    claim(done.json() == {"in": True}, done)


def test_numbers_pass_unchanged(world):
    world.ok("deploy", world.file("raw.py", "import os, sys\nprint('{\"n\":1e400,\"m\":12345678901234567890123}')\n"), "--contract", "stdio")
    world.ok("deploy", world.file("back.py", "import sys\nsys.stdout.write(sys.stdin.read())\n"), "--contract", "stdio")
    big = '{"n":12345678901234567890123,"e":1e400}'
    for arguments in (["-P", world.file("big.json", big)], ["-p", "n=12345678901234567890123", "-p", "e=1e400"], ["-f", world.path("big.json"), "-p", "x=1"]):
        text = world.ok("invoke", "back", *arguments).text
        claim('"n": 12345678901234567890123' in text and '"e": 1e400' in text, text)
    text = world.ok("invoke", "raw", "--json").text
    claim(text.count('"n": 1e400') == 2 and text.count('"m": 12345678901234567890123') == 2, text)


def test_arguments_are_not_options_of_the_api(world):
    modes(world)
    photo = world.file("options.png", b"\x89PNG\r\n\x1a\n")
    done = world.ok("invoke", "modes", "-f", photo, "-p", "async=true", "-p", "record=x", "-p", "wait_ms=y")
    claim(done.json()["query"] == "%61sync=true&%72ecord=x&%77ait_ms=y", done)


def test_a_file_is_sent_as_it_is_with_its_type_and_arguments_in_the_query(world):
    modes(world)
    done = world.ok("invoke", "modes", "-f", world.file("photo.png", b"\x89PNG\r\n\x1a\n"), "-p", "max=64")
    claim(done.json() == {"size": 8, "query": "max=64", "contentType": "image/png"}, done)
    done = world.ok("invoke", "modes", "-f", world.file("data", b"12345"), "-H", "Content-Type: application/x-mine")
    claim(done.json()["contentType"] == "application/x-mine", done)


def test_a_binary_answer_goes_to_a_file_or_a_pipe(world):
    modes(world)
    out = world.path("answer.bin")
    world.ok("invoke", "modes", "-p", "mode=bytes", "-o", out)
    claim(out.read_bytes() == bytes([0, 1, 2, 255]))
    breaks = "exports.main = () => new Response(new ReadableStream({ pull(to) { if (this.n) throw new Error('mid'); this.n = 1; to.enqueue(new Uint8Array(9)); } }));\n"
    world.ok("deploy", world.file("breaks.js", breaks))
    done = world.run("invoke", "breaks", "-o", out)
    claim(done.code != 0 and out.read_bytes() == bytes([0, 1, 2, 255]), "what broke off did not touch the file", done)
    missing = world.path("missing.bin")
    claim(world.run("invoke", "breaks", "-o", missing).code != 0 and not missing.exists())
    claim(world.ok("invoke", "modes", "-p", "mode=bytes").out == bytes([0, 1, 2, 255]))
    done = world.ok("invoke", "modes", "-p", "mode=bytes", "--json").json()
    claim(done["answer"]["base64"] == "AAEC/w==" and done["content_type"] == "application/octet-stream", done)


def test_a_failed_call_does_not_write_its_error_into_the_file(world):
    modes(world)
    out = world.path("never-written")
    done = world.run("invoke", "modes", "-p", "mode=app", "-o", out)
    claim(done.code == 1 and not out.exists() and "mine" in done.text, done)


def test_a_status_of_the_functions_own_is_shown(world):
    modes(world)
    done = world.run("invoke", "modes", "-p", "mode=teapot")
    claim(done.code == 1 and done.text == "short and stout" and "application error" in done.said, done)
    record = world.run("invoke", "modes", "-p", "mode=teapot", "--json").json()
    claim(record["answer"]["status"] == 418 and record["status"] == "application_error", record)


def test_an_asynchronous_call_is_recorded(world):
    modes(world)
    done = world.ok("invoke", "modes", "-p", "mode=later", "--async")
    activation = done.text.strip()
    claim(len(activation) == 32, done)
    # Until it has ended, it is said where the call is.
    record = eventually("the record", lambda: "result" in (said := world.ok("explain", activation, "--json").json()) and said)
    claim(record["result"] == {"mode": "later"}, record)
    claim("mode later" in world.ok("logs", activation).text)


def test_explain_says_where_an_accepted_call_is(world):
    fails = world.file("fails.js", "exports.main = () => process.exit(3);\n")
    world.ok("deploy", fails, "--retries", "3", "--retry-backoff", "1h")
    activation = world.ok("invoke", "fails", "--async").text.strip()
    eventually("the first attempt", lambda: "waits for attempt 2 of 4, due" in world.ok("explain", activation).text)
    call = world.ok("explain", activation, "--json").json()
    claim((call["state"], len(call["attempts"]), call["begun"]) == ("delayed", 1, 1), call)
    world.ok("deploy", fails, "--retries", "0")
    activation = world.ok("invoke", "fails", "--async").text.strip()
    eventually("the dead letter", lambda: "a dead letter" in world.ok("explain", activation).text)


def test_a_stream_is_shown_as_it_comes(world):
    code = """exports.main = () => new Response((async function* () {
      for (let i = 0; i < 3; i++) { yield `line ${i}\\n`; await new Promise((done) => setTimeout(done, 50)); }
    })(), { headers: { 'content-type': 'text/plain' } });\n"""
    world.ok("deploy", world.file("streamed.js", code))
    claim(world.ok("invoke", "streamed").text == "line 0\nline 1\nline 2\n")
    eventually("a record of the stream", lambda: world.ok("activations", "streamed", "--json").json()["activations"])


def test_a_function_that_fails_while_it_answers_is_to_blame(world):
    code = "def main(params):\n    yield 'begun\\n' * 10\n    raise ValueError('half-way')\n"
    world.ok("deploy", world.file("midway.py", code))
    done = world.run("invoke", "midway")
    claim(done.code == 1 and "half-way" in done.said and "flint logs" in done.said, done)
    done = world.run("invoke", "midway", "--json")
    claim(done.code == 1 and done.json()["status"] == "developer_error", done)
    target = world.path("midway.out")
    done = world.run("invoke", "midway", "-o", target)
    claim(done.code == 1 and not os.path.exists(target), done)
    done = world.run("dev", world.path("midway.py"), "--once")
    claim(done.code == 1 and "half-way" in done.said, done)


def test_a_server_that_goes_away_while_it_answers_is_to_blame(world):
    code = "import time\ndef main(params):\n    yield 'begun\\n'\n    time.sleep(60)\n"
    server = Server(world, world.path("gone-data"))
    world.ok("deploy", world.file("slow.py", code), url=server.url)
    command = world.start("invoke", "slow", url=server.url)
    command.until("begun")
    server.kill()
    claim(command.process.wait(60) == 3 and "may have stopped" in command.text(), command.text())


def test_activations_are_listed_latest_first(world):
    world.ok("deploy", world.file("often.js", "exports.main = ({ n }) => ({ n });\n"))
    for n in range(3):
        world.ok("invoke", "often", "-p", f"n={n}")
    records = world.ok("activations", "often", "--json").json()["activations"]
    claim([record["result"]["n"] for record in records] == [2, 1, 0], records)
    claim(len(world.ok("activations", "often", "-n", "1", "--skip", "1", "--json").json()["activations"]) == 1)
    claim("often" in world.ok("activations").text)


def test_an_answer_that_is_stopped_leaves_nothing_in_its_folder(world):
    code = "import time\ndef main(params):\n    yield 'begun\\n'\n    time.sleep(50)\n"
    world.ok("deploy", world.file("endless.py", code))
    folder = world.path("stopped")
    folder.mkdir()
    command = world.start("invoke", "endless", "-o", folder / "answer")
    eventually("the answer begins", lambda: os.listdir(folder))
    claim(command.end() == 130, command.text())
    claim(os.listdir(folder) == [], os.listdir(folder))


CALLS = 400


def test_letters_are_redriven_once_though_they_fail_again(world):
    world.ok("deploy", world.file("dies.js", "exports.main = () => { throw new Error('no'); };\n"), "--retries", "0")
    world.ok("dlq", "rm", "--all")
    letters = lambda: {letter["id"] for letter in world.ok("dlq", "list", "-n", "1000", "--json").json()["dead_letters"]}
    # So many that the first fail again before the last are redriven.
    key = "23bc46b1-71f6-4ed5-8c54-816aa4f8c502:123zO3xZCLrMN6v2BKK1dXYFpXlPkccOFqm12CdAsMgRU4VrNZ9lyGVCGuMDGIwP"
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    for _ in range(CALLS):
        call = urllib.request.Request(f"{world.server.url}/v1/functions/dies/invoke?async=true", b"{}", headers)
        urllib.request.urlopen(call, timeout=60).close()
    eventually("a letter of each call", lambda: len(letters()) == CALLS)
    for which in (["--function", "dies"], ["--all"]):
        before = letters()
        done = world.ok("dlq", "redrive", *which, "--json")
        claim(sorted(one["letter"] for one in done.json()["redriven"]) == sorted(before), done)
        eventually("they failed again", lambda: len(letters()) == CALLS)
    claim("no dead letters in this part" in world.ok("dlq", "list", "-n", "0").text)
    one = letters().pop()
    done = world.run("dlq", "rm", "0" * 32, one, "--json")
    claim(done.code == 4 and done.json() == {"removed": 1} and one not in letters(), done)
    for verb in ("rm", "redrive"):
        done = world.run("dlq", verb, one)
        claim(done.code == 4 and not done.text and f"there is no dead letter {one}" in done.said, done)
    world.ok("dlq", "rm", "--function", "dies")


def test_stdin_is_one_thing(world):
    world.refused(2, "stdin", arguments=["invoke", "x", "-P", "-", "-f", "-"])
