"""Data: restarts, kill -9, backup, restore, damage."""

import os
import subprocess
from pathlib import Path

from harness import Server, claim, eventually, fetch

KEEP = "exports.main = ({ n }) => { console.log('kept', n); return { n }; };\n"


def test_everything_is_there_after_a_restart(world):
    data = world.path("restart-data")
    server = Server(world, data)
    world.ok("deploy", world.file("keep.js", KEEP), url=server.url)
    world.ok("invoke", "keep", "-p", "n=1", url=server.url)
    claim(server.stop() == 0, server.log())
    server = Server(world, data)
    claim(world.ok("invoke", "keep", "-p", "n=2", url=server.url).json() == {"n": 2})
    records = world.ok("activations", "keep", "--json", url=server.url).json()["activations"]
    claim([record["result"]["n"] for record in records] == [2, 1], records)
    server.stop()


def test_what_was_called_before_a_restart_is_ready_again_before_it_is_called(world):
    data = world.path("rewarm-data")
    server = Server(world, data)
    deployed = [world.ok("deploy", world.file(f"{name}.js", KEEP), "--json", url=server.url).json() for name in ("called", "uncalled")]
    world.ok("invoke", "called", "-p", "n=1", url=server.url)
    server.stop()
    server = Server(world, data)
    eventually("the function is ready again", lambda: "ready again ready=1" in server.log())
    forked = deployed[0]["function"]["prepared"]["strategy"]["start"] == "fork"
    claim(f"flint_zygotes {int(forked)}\n" in fetch(f"{server.url}/metrics").decode(), server.log())
    claim(world.ok("invoke", "called", "-p", "n=2", url=server.url).json() == {"n": 2})
    server.stop()
    server = Server(world, data, "--set", "server.rewarm=0")
    claim(world.ok("invoke", "uncalled", "-p", "n=3", url=server.url).json() == {"n": 3})
    claim("ready again" not in server.log(), server.log())
    server.stop()


def test_kill_9_loses_no_accepted_call_and_leaves_nothing_behind(world):
    data = world.path("killed-data")
    server = Server(world, data)
    world.ok("deploy", world.file("keep.js", KEEP), url=server.url)
    accepted = [world.ok("invoke", "keep", "-p", f"n={n}", "--async", url=server.url).text.strip() for n in range(5)]
    below = eventually("a launcher and an instance run", lambda: len(found := descendants(server.process.pid)) >= 2 and found)
    server.kill()
    eventually("every process of the killed server is gone", lambda: not alive(below))
    server = Server(world, data)
    for activation in accepted:
        eventually(f"a record of {activation}", lambda: world.run("logs", activation, url=server.url).code == 0)
    claim(world.ok("invoke", "keep", "-p", "n=9", url=server.url).json() == {"n": 9})
    below = descendants(server.process.pid)
    server.stop()
    eventually("every process of the stopped server is gone", lambda: not alive(below))


def test_a_restore_over_old_data_keeps_the_key_of_secrets(world):
    data, copy, fresh = world.path("keyed-data"), world.path("keyed-copy"), world.path("keyed-fresh")
    server = Server(world, data)
    world.ok("secret", "set", "password", "--raw", stdin=b"hunter2", url=server.url)
    world.ok("deploy", world.file("reads.js", "exports.main = () => ({ is: process.env.PW });\n"), "--secret", "password=PW", url=server.url)
    inside = world.bare("backup", data / "inside", "--data-dir", data)
    claim(inside.code != 0 and "data directory itself" in inside.said and not (data / "inside").exists(), inside)
    claim(world.bare("backup", copy, "--data-dir", data).code == 0)
    server.stop()
    done = world.bare("restore", copy, "--data-dir", data, "--force")
    claim(done.code == 0 and "secrets.key was copied" in done.text, done)
    # The key may be in the new directory before the data.
    fresh.mkdir()
    (fresh / "secrets.key").write_bytes((data / "secrets.key").read_bytes())
    done = world.bare("restore", copy, "--data-dir", fresh)
    claim(done.code == 0, done)
    for restored in (data, fresh):
        server = Server(world, restored)
        claim(world.ok("invoke", "reads", url=server.url).json() == {"is": "hunter2"})
        server.stop()


def test_a_restore_that_fails_can_be_repeated(world):
    data, copy, target = world.path("repeat-data"), world.path("repeat-copy"), world.path("repeat-target")
    Server(world, data).stop()
    claim(world.bare("backup", copy, "--data-dir", data).code == 0)
    whole = (copy / "flint.db").read_bytes()
    (copy / "flint.db").write_bytes(whole[:100] + b"x" + whole[101:])
    for _ in range(2):
        done = world.bare("restore", copy, "--data-dir", target)
        claim(done.code == 5 and "hash" in done.said and not target.exists(), done)
    (copy / "flint.db").write_bytes(whole)
    done = world.bare("restore", copy, "--data-dir", target)
    claim(done.code == 0, done)
    typo = world.path("typo")
    for arguments in (["namespace", "list"], ["secret", "rotate-key"], ["backup", world.path("nothing")]):
        done = world.bare(*arguments, "--data-dir", typo)
        claim(done.code == 2 and "there is no data" in done.said and not typo.exists(), done)
    done = world.bare("namespace", "create", "team", "--data-dir", typo)
    claim(done.code == 0 and typo.exists(), done)


def test_a_backup_of_a_running_server_is_restored_elsewhere(world):
    data, copy, elsewhere = world.path("source-data"), world.path("copy"), world.path("elsewhere")
    server = Server(world, data)
    world.ok("deploy", world.file("keep.js", KEEP), url=server.url)
    world.ok("invoke", "keep", "-p", "n=1", url=server.url)
    done = world.bare("backup", copy, "--data-dir", data)
    claim(done.code == 0 and "copied" in done.text, done)
    done = world.bare("backup", copy, "--data-dir", data)
    claim(done.code == 2 and "not empty" in done.said, done)
    done = world.bare("restore", copy, "--data-dir", data)
    claim(done.code == 2 and "has data already" in done.said, done)
    done = world.bare("restore", copy, "--data-dir", data, "--force")
    claim(done.code == 5 and "in use" in done.said, done)
    # What is no backup is refused before anything is done to the data.
    done = world.bare("restore", data / "blobs", "--data-dir", data, "--force")
    claim(done.code == 2 and "which it would replace" in done.said, done)
    done = world.bare("restore", world.path("home"), "--data-dir", data, "--force")
    claim(done.code == 5 and "no complete backup" in done.said, done)
    server.stop()
    done = world.bare("restore", copy, "--data-dir", elsewhere)
    claim(done.code == 0, done)
    server = Server(world, elsewhere)
    claim(world.ok("invoke", "keep", "-p", "n=2", url=server.url).json() == {"n": 2})
    claim(len(world.ok("activations", "keep", "--json", url=server.url).json()["activations"]) == 2)
    server.stop()


def test_a_backup_of_a_stopped_server_replaces_damaged_data(world):
    data, copy = world.path("damaged-data"), world.path("copy-2")
    server = Server(world, data)
    world.ok("deploy", world.file("keep.js", KEEP), url=server.url)
    server.stop()
    claim(world.bare("backup", copy, "--data-dir", data).code == 0)
    database = data / "flint.db"
    database.write_bytes(b"garbage " * 512)
    done = world.bare("up", "--listen", "127.0.0.1:0", "--data-dir", data)
    claim(done.code == 5 and "damaged" in done.said and "flint restore" in done.said, done)
    done = world.bare("restore", copy, "--data-dir", data, "--force")
    claim(done.code == 0 and "old data is in" in done.text, done)
    server = Server(world, data)
    claim(world.ok("invoke", "keep", "-p", "n=3", url=server.url).json() == {"n": 3})
    server.stop()


def test_what_root_does_with_data_of_a_service_user_stays_that_users(world):
    if os.geteuid() != 0:
        return  # Nobody else can give files away.
    nobody, data, copy = 65534, world.path("served-data"), world.path("served-copy")

    def of_others(directory):
        return [str(path) for path in [directory, *directory.rglob("*")] if path.lstat().st_uid != nobody]

    server = Server(world, data)
    world.ok("secret", "set", "password", stdin=b"hunter2", url=server.url)
    world.ok("deploy", world.file("keep.js", KEEP), url=server.url)
    server.stop()
    claim(world.bare("backup", copy, "--data-dir", data).code == 0)
    subprocess.run(["chown", "-hR", f"{nobody}:{nobody}", data], check=True)
    (data / "operator.json").unlink()
    done = world.bare("secret", "rotate-key", "--data-dir", data)
    claim(done.code == 0 and (data / "operator.json").exists() and not of_others(data), (done, of_others(data)))
    done = world.bare("restore", copy, "--data-dir", data, "--force")
    claim(done.code == 0 and not of_others(data), (done, of_others(data)))
    # As a unit of systemd has it before the first start; also where the backup cannot be used.
    fresh, database = world.path("served-fresh"), copy / "flint.db"
    fresh.mkdir()
    os.chown(fresh, nobody, nobody)
    whole = database.read_bytes()
    database.write_bytes(whole[:100] + b"x" + whole[101:])
    done = world.bare("restore", copy, "--data-dir", fresh)
    claim(done.code == 5 and not of_others(fresh), (done, of_others(fresh)))
    database.write_bytes(whole)
    done = world.bare("restore", copy, "--data-dir", fresh)
    claim(done.code == 0 and (fresh / "flint.db").exists() and not of_others(fresh), (done, of_others(fresh)))


def test_what_is_no_backup_is_refused(world):
    nothing = world.path("no-backup")
    nothing.mkdir()
    done = world.bare("restore", nothing, "--data-dir", world.path("from-nothing"))
    claim(done.code == 5 and done.said.startswith("error:"), done)
    done = world.bare("restore", "/no/such/backup", "--data-dir", world.path("from-nothing"))
    claim(done.code == 2, done)
    done = world.bare("backup", world.path("x"), "--data-dir", "/no/such/data")
    claim(done.code == 2 and "/no/such/data" in done.said, done)


def descendants(pid):
    """Every process below `pid`, with its start time, which tells it from a later one with the same number."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = stat_of(entry.name)
            if fields:
                parents.setdefault(int(fields[1]), []).append((int(entry.name), fields[19]))
    found, waiting = [], [pid]
    while waiting:
        for child in parents.get(waiting.pop(), []):
            found.append(child)
            waiting.append(child[0])
    return found


def stat_of(pid):
    """The fields of /proc/PID/stat from the state on; None when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def alive(processes):
    """Those that still run; one that has ended and only waits to be collected does not."""
    return [pid for pid, started in processes if (fields := stat_of(pid)) and fields[19] == started and fields[0] != "Z"]
