"""The laboratory as a command: what it refuses, and what it leaves behind."""

import os
import signal
import socket
import subprocess
from pathlib import Path

from harness import claim, eventually


def processes():
    """Of every process: its parent and when it began."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            found[int(entry.name)] = (int(fields[1]), fields[19]) if fields[0] != "Z" else (0, None)
    return found


def below(root):
    """The descendants of a process, each with when it began, and their command lines."""
    every, found = processes(), {root}
    while more := {pid for pid, (parent, _) in every.items() if parent in found} - found:
        found |= more
    began = {pid: every[pid][1] for pid in found - {root}}
    lines = []
    for pid in began:
        try:
            lines.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            pass
    return began, lines


def test_a_folder_without_a_report_is_wrong_usage(world):
    empty = world.path("bench-empty")
    empty.mkdir()
    for arguments in (["report", str(empty)], ["promises", "--from", str(empty)]):
        done = world.bare("bench", *arguments)
        claim(done.code == 2 and "there is no report in" in done.said, done)


def test_a_benchmark_that_is_killed_leaves_nothing_behind(world):
    scratch, out = world.path("bench-scratch"), world.path("bench-out")
    scratch.mkdir()
    # Arms that start all kinds of processes, without those of a hundred functions, which take minutes to deploy.
    arguments = ["bench", "overhead", "--quick", "--arms", "plain-node,plain-python,shim-node,flint-node", "--out", str(out)]
    command = [world.flint, *arguments]
    environment = world.environment({"TMPDIR": str(scratch)})
    with open(world.path("bench-log"), "wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
    try:
        started = {}

        def all_there():
            began, lines = below(process.pid)
            started.update(began)
            parts = (" up --listen", "__launcher", "plain-server.cjs", "plain_server.py", "shim")
            claim(process.poll() is None, "it ended:", world.path("bench-log").read_text(errors="replace"))
            return all(any(part in line for line in lines) for part in parts)

        eventually("the server, its launcher, plain servers and a shim run", all_there, within_s=600)
        second = world.bare(*arguments, environment=environment)
        claim(second.code == 5 and f"in use by the run of process {process.pid}" in second.said, second)
        started.update(below(process.pid)[0])
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()

    def left():
        now = processes()
        return [pid for pid, began in started.items() if now.get(pid, (0, None))[1] == began]

    eventually("every process has ended", lambda: not left())
    eventually("the scratch directories are gone", lambda: not os.listdir(scratch))
    # The folder is free again; another run of other settings is refused for that alone.
    other = world.bare(*arguments, "--seed", "2", environment=environment)
    claim("a run of another settings" in other.said, other)
    claim(not os.listdir(scratch), "a refused run leaves something")


def test_a_closed_loop_does_not_wait_for_an_answer_that_does_not_come(world):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        done = world.bare("bench", "load", url, "--closed", "2", "--duration", "2s", "--timeout", "500ms", "--json")
    claim(done.code == 1 and not done.out, done)
    claim("nothing_measured" in done.said and "no answer within 500 ms" in done.said, done)
    # Nor is an answer that is not the right one a measurement, whatever the machine is like.
    done = world.bare("bench", "load", f"{world.server.url}/no/such/page", "--closed", "1", "--duration", "2s")
    claim(done.code == 1 and "status 404 instead of 200" in done.said, done)


def test_a_load_says_where_it_was_measured(world):
    url = f"{world.server.url}/health"
    for loop in (["--closed", "1"], ["--rate", "50"]):
        done = world.bare("bench", "load", url, *loop, "--duration", "500ms", "--warm-up", "0s", "--json")
        claim(done.code == 0, done)
        document = done.json()
        claim(document["answered"] > 0 and document["host"]["cores"] > 0 and document["host"]["kernel"], document)
        claim(document["commit"], document)


def test_what_an_experiment_does_not_have_is_wrong_usage(world):
    for arguments, part in [
        (["wasm", "--set", "bogus=1"], "the experiment wasm has no options"),
        (["coldstart", "--set", "lives=1"], "it has live"),
        (["coldstart", "--set", "live=none"], "'none' is not a number from 1 to 1000"),
        (["afterburn", "--set", "seconds=never"], "write a number"),
        (["faasdom", "--set", "workload=nothing"], "there is no workload 'nothing' here; there is"),
        (["azure-replay", "--set", "trace=2021", "--set", "procedure=photons"], "--set procedure=whole"),
        (["azure-replay", "--set", "trace=/no/such/trace"], "/no/such/trace/invocations.csv"),
        (["faasdom", "--set", "functions=/no/such/folder"], "/no/such/folder"),
        (["faasdom", "--arms", "nosuch"], "there is no arm 'nosuch': choose from"),
        (["coldstart", "--arms", "nosuch"], "there is no arm 'nosuch': choose ARM or ARM:FUNCTION from"),
        (["overhead", "--quick", "--arms", "nosuch"], "there is no arm 'nosuch': choose from bare-http,"),
    ]:
        done = world.bare("bench", *arguments)
        claim(done.code == 2 and part in done.said, done)
        names = done.said.rpartition("choose from ")[2].strip().split(", ")
        claim(len(names) == len(set(names)), f"a name twice: {names}")
