"""Results whose reader goes away, or has no room."""

import json
import os
import subprocess
import time

from harness import COMMAND_WITHIN_S, CaseFailed, claim

# As small as a report is.
REPORT = {
    "experiment": "overhead",
    "host": {"cpu": "", "cores": 1, "memory_bytes": 1, "kernel": "", "os": "", "load_1m": 0.0},
    "commit": "unknown",
    "settings": {},
    "versions": {},
    "ended": 0,
    "arms": [{"arm": "flint-node", "calls_per_s": 1e-320}],
    "ratios": {},
    "targets": [],
    "notes": [],
}
STREAM = """export function main() {
  const line = new TextEncoder().encode('tick '.repeat(1000) + '\\n');
  let left = 2000;
  return new Response(new ReadableStream({
    pull(controller) { if (left-- > 0) controller.enqueue(line); else controller.close(); },
  }), { headers: { 'content-type': 'text/plain' } });
}
"""


def ended(world, arguments, out, err):
    """The exit code, with these as stdout and stderr."""
    environment = world.environment({"FLINT_URL": world.server.url})
    command = [world.flint, *map(str, arguments)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment, timeout=COMMAND_WITHIN_S)
    return done.returncode, (done.stderr or b"").decode()


def closed_pipe():
    read, write = os.pipe()
    os.close(read)
    return write


def results(world):
    """A command for each way to print."""
    kept = world.path("a-run")
    if not kept.exists():
        kept.mkdir()
        (kept / "report.json").write_text(json.dumps(REPORT))
    world.ok("deploy", world.file("hello.js", "exports.main = () => ({ greeting: 'hello' });\n"), "--name", "printed")
    return [
        ["completions", "bash"],
        ["--help"],
        ["list"],
        ["list", "--json"],
        ["config"],
        ["bench", "list"],
        ["bench", "report", kept],
        ["bench", "report", kept, "--json"],
        ["bench", "promises", "--from", kept],
        ["invoke", "printed"],
        ["invoke", "printed", "--json"],
        ["get", "printed"],
    ]


def test_a_reader_that_goes_away_ends_a_command_quietly(world):
    for arguments in results(world):
        out = closed_pipe()
        try:
            code, said = ended(world, arguments, out, subprocess.PIPE)
        finally:
            os.close(out)
        claim((code, said) == (0, ""), f"{arguments}: {code}\n{said}")


def test_a_full_disk_is_an_error_with_its_cause(world):
    for arguments in results(world):
        with open("/dev/full", "wb") as out:
            code, said = ended(world, arguments, out, subprocess.PIPE)
        claim(code == 5 and "cannot write to standard output: No space left" in said, f"{arguments}: {code}\n{said}")


def test_nobody_has_to_listen_to_what_is_said_beside_the_results(world):
    failing = world.file("fails.js", "exports.main = () => { throw new Error('no'); };\n")
    world.ok("deploy", failing, "--name", "fails")
    expected = [(["get", "nothing-like-that"], 4), (["invoke", "fails"], 1), (["nonsense"], 2), (["bench", "nonsense"], 2)]
    for arguments, wanted in expected:
        for err in (closed_pipe(), os.open("/dev/full", os.O_WRONLY)):
            try:
                code, _ = ended(world, arguments, subprocess.DEVNULL, err)
            finally:
                os.close(err)
            claim(code == wanted, f"{arguments}: {code}")


def test_an_endless_answer_ends_with_its_reader(world):
    world.ok("deploy", world.file("ticks.mjs", STREAM), "--name", "ticks")
    pipeline = '"$0" invoke ticks 2>&1 | head -n 3; echo "${PIPESTATUS[0]}"'
    environment = world.environment({"FLINT_URL": world.server.url})
    command = ["bash", "-c", pipeline, world.flint]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=environment, timeout=COMMAND_WITHIN_S)
    lines = done.stdout.decode().splitlines()
    if lines[-1:] != ["0"] or len(lines) != 4 or done.stderr:
        raise CaseFailed(f"{lines[-1:]} of {len(lines)} lines\n{done.stderr.decode()}")


LOUD = "exports.main = () => { console.log('\\x1b]0;renamed\\x07\\x1b[31mred\\x1b[0m \\x1b[2Jgone'); return {}; };\n"


def on_a_terminal(world, *arguments, term="xterm"):
    """What a terminal is sent."""
    ours, theirs = os.openpty()
    environment = world.environment({"FLINT_URL": world.server.url, "TERM": term})
    command = [world.flint, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    sent = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # everybody who could write has ended
            piece = b""
        if not piece:
            break
        sent += piece
    os.close(ours)
    return process.wait(COMMAND_WITHIN_S), sent


def test_logs_have_no_power_over_a_terminal_and_keep_their_colours(world):
    world.ok("deploy", world.file("colourful.js", LOUD))
    world.ok("invoke", "colourful")
    code, sent = on_a_terminal(world, "logs", "colourful")
    claim(code == 0 and b"\x1b[31mred" in sent and b"renamed" in sent, sent)
    claim(b"\x1b]" not in sent and b"\x1b[2J" not in sent and b"\x07" not in sent, sent)
    piped = world.ok("logs", "colourful").out
    claim(b"\x1b]0;renamed\x07\x1b[31mred" in piped, piped)


WAITS = "exports.main = ({ ms }) => new Promise((done) => setTimeout(() => done({ over: true }), ms));\n"


def test_what_takes_long_says_what_it_is_where_a_line_can_be_written_anew(world):
    world.ok("deploy", world.file("waits.js", WAITS))
    began = time.monotonic()
    code, sent = on_a_terminal(world, "invoke", "waits", "-p", "ms=1")
    claim(code == 0 and b"over" in sent, sent)
    if time.monotonic() - began < 1:
        claim(b"waiting" not in sent and b"\x1b" not in sent, sent)
    code, sent = on_a_terminal(world, "invoke", "waits", "-p", "ms=4000")
    claim(code == 0 and b"waiting for waits" in sent and b"over" in sent, sent)
    code, sent = on_a_terminal(world, "invoke", "waits", "-p", "ms=4000", term="dumb")
    claim(code == 0 and b"over" in sent and b"waiting" not in sent and b"\x1b" not in sent, sent)
