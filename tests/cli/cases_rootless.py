"""A server of an ordinary user on a host that others use too. Run as root, these cases step down first."""

import os
import pwd
import shutil
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path

from harness import Server, World, claim, eventually

NOBODY = 65534
HELLO = "exports.main = ({ name = 'you' }) => ({ greeting: `Hello, ${name}!` });\n"
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all"] if os.geteuid() == 0 else []
# Those of v1, and v2 wherever it is mounted.
HIERARCHIES = ["memory", "pids", "cpu", "cpuacct", "freezer", "unified", "."]
# What functions have cgroups for, as `flint doctor` calls and orders it.
LIMITS = ["memory", "pids", "cpu", "freezer"]


@contextmanager
def a_users_world(world):
    """A scratch directory and a binary that the user can reach."""
    scratch = Path(tempfile.mkdtemp(prefix="flint-cli-user-"))
    try:
        scratch.chmod(0o755)
        flint = shutil.copy(world.flint, scratch / "flint")
        theirs = World(flint, scratch)
        if AS_NOBODY:
            os.chown(theirs.path("home"), NOBODY, NOBODY)
        try:
            yield theirs
        finally:
            theirs.close()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def a_users_server(theirs, data, *before):
    server = Server(theirs, data, before=[*AS_NOBODY, *before])
    try:
        yield server
    finally:
        server.stop()


def directory(theirs, name, mode):
    """An existing directory of the user's."""
    path = theirs.path(name)
    path.mkdir()
    path.chmod(mode)
    if AS_NOBODY:
        os.chown(path, NOBODY, NOBODY)
    return path


def test_nobody_else_can_write_or_lock_what_a_server_keeps(world):
    """In a directory that others may look into, whatever the umask is."""
    with a_users_world(world) as theirs:
        data = directory(theirs, "data", 0o755)
        with a_users_server(theirs, data, "sh", "-c", 'umask 0; exec "$@"', "sh") as server:
            theirs.ok("deploy", theirs.file("hello.js", HELLO), "--start", "spawn", url=server.url)
            claim(theirs.ok("invoke", "hello", url=server.url).json() == {"greeting": "Hello, you!"})
            for path, mode in open_to_others(data):
                claim(stat.S_ISLNK(mode) or not mode & stat.S_IWOTH, f"others can write to {path}: {stat.filemode(mode)}")
            # Who can read it could hold its lock, and keep the server from starting.
            claim(not (data / "flint.lock").stat().st_mode & 0o077, "others can lock the data")


def open_to_others(path):
    """What somebody who is not its owner can reach from there, with its mode. The server goes on meanwhile: what is gone by then is not meant."""
    try:
        mode = path.lstat().st_mode
        entries = list(path.iterdir()) if stat.S_ISDIR(mode) and mode & stat.S_IXOTH else []
    except FileNotFoundError:
        return
    yield path, mode
    for entry in entries:
        yield from open_to_others(entry)


def test_a_user_without_home_in_the_environment_has_one_all_the_same(world):
    with a_users_world(world) as theirs:
        environment = theirs.environment()
        for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
            environment.pop(name, None)
        command = [*AS_NOBODY, theirs.flint, "config", "server.data_dir", "--json"]
        theirs.flint, *arguments = command
        shown = theirs.bare(*arguments, environment=environment)
        home = pwd.getpwuid(NOBODY if AS_NOBODY else os.geteuid()).pw_dir
        claim(shown.json()[0]["value"] == f"{home}/.local/share/flint", shown)


def limits_that_work(doctor):
    """By what `flint doctor --json` says: whether each of `LIMITS` does, or the host is said to be without it."""
    states = {one["name"]: one["state"] for one in doctor.json()["abilities"]}
    found = [states.get(f"cgroup-{name}") for name in LIMITS]
    claim(set(found) <= {"works", "missing"}, states)
    return [name for name, state in zip(LIMITS, found) if state == "works"]


def test_doctor_names_limits_that_this_host_cannot_keep(world):
    """A user who was given no cgroup can limit nothing; root, whatever has a hierarchy of v1 that can be written to."""
    if not AS_NOBODY:
        print("not checked: it takes root to know that a user was given no cgroup", flush=True)
        return
    with a_users_world(world) as theirs:
        theirs.flint, *arguments = [*AS_NOBODY, theirs.flint, "doctor", "--json"]
        claim(limits_that_work(theirs.bare(*arguments)) == [], "a user without cgroups is said to have some")
    works = limits_that_work(world.bare("doctor", "--json"))
    for name in LIMITS:
        place = Path("/sys/fs/cgroup", name)
        if (place / "cgroup.procs").exists() and os.access(place, os.W_OK):
            claim(name in works, f"{place} can be written to, and only {works} are said to work")


def test_limits_that_no_cgroup_enforces_are_in_the_log(world):
    with a_users_world(world) as theirs:
        with a_users_server(theirs, directory(theirs, "data", 0o700)) as server:
            works = limits_that_work(theirs.ok("doctor", "--remote", "--json", url=server.url))
            claim(not (AS_NOBODY and works), f"a user without cgroups is said to have {works}")
            without = [name for name in LIMITS if name not in works]
            said = "functions have no cgroup for"
            if without:  # log lines are written by a thread of their own
                eventually("the log has it", lambda: f"{said} {', '.join(without)}" in server.log())
            else:
                claim(said not in server.log(), server.log())


def test_with_a_delegated_cgroup_functions_run_within_their_limits(world):
    """What systemd does for `Delegate=yes`: the user owns the groups that the server is in."""
    if not AS_NOBODY:
        print("not checked: it takes root to delegate a cgroup", flush=True)
        return
    # Some hosts mount cpu and cpuacct as one, with links to it.
    mounted = {path.resolve() for name in HIERARCHIES if (path := Path("/sys/fs/cgroup", name)).joinpath("cgroup.procs").exists()}
    groups = [path / f"cli-rootless-{os.getpid()}" for path in mounted]
    if not any(group.parent.name == "memory" for group in groups):
        print("not checked: this host has no memory cgroup of v1", flush=True)
        return
    try:
        for group in groups:
            group.mkdir()
            for path in (group, *group.iterdir()):
                os.chown(path, NOBODY, NOBODY)
        enter = "; ".join(f"echo $$ > {group}/cgroup.procs" for group in groups)
        with a_users_world(world) as theirs:
            with a_users_server(theirs, directory(theirs, "data", 0o700), "sh", "-c", f'{enter}; exec "$@"', "sh") as server:
                # What the host cannot do is no default.
                theirs.ok("deploy", theirs.file("hello.js", HELLO), url=server.url)
                claim(theirs.ok("invoke", "hello", url=server.url).json() == {"greeting": "Hello, you!"})
                bomb = "import os, time\ndef main(params):\n    for _ in range(5):\n        if os.fork() == 0:\n            hoard = bytearray(100 << 20)\n            time.sleep(60)\n    time.sleep(60)\n"
                theirs.ok("deploy", theirs.file("bomb.py", bomb), "--memory", "128", url=server.url)
                done = theirs.run("invoke", "bomb", url=server.url)
                claim(done.code == 1 and "exhausted its memory" in done.text, done)
                forked = theirs.run("deploy", theirs.file("forked.js", HELLO), "--start", "fork", url=server.url)
                claim(forked.code == 4 and "run flint as root" in forked.said, forked)
            left = [path for group in groups for path in group.glob("flint-*")]
            claim(not left, "cgroups are left", *left)
    finally:
        for group in groups:  # the last process may be leaving it
            eventually(f"{group} can be removed", lambda: is_removed(group), within_s=30)


def is_removed(group):
    try:
        group.rmdir()
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


def test_a_covered_proc_is_named_with_the_way_out(world):
    """As containers cover parts of it; within a user namespace the kernel then refuses a whole one."""
    if not AS_NOBODY:
        print("not checked: it takes root to cover parts of /proc", flush=True)
        return
    with a_users_world(world) as theirs:
        theirs.flint, *arguments = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc/sys && exec "$@"', "sh", *AS_NOBODY, theirs.flint, "doctor"]
        done = theirs.bare(*arguments)
        claim(done.code == 5 and "systempaths=unconfined" in done.text and "Functions cannot run" in done.text, done)


def test_root_of_a_user_namespace_is_not_told_that_it_is_root(world):
    with a_users_world(world) as theirs:
        theirs.flint, *arguments = [*AS_NOBODY, "unshare", "--map-root-user", theirs.flint, "doctor", "--json"]
        rights = next(one for one in theirs.bare(*arguments).json()["abilities"] if one["name"] == "rights")
        claim(rights["state"] == "limited" and "one host user for all sandboxes" in rights["detail"], rights)


def test_a_data_directory_where_nothing_can_be_executed_is_named(world):
    if not AS_NOBODY:
        print("not checked: it takes root to mount", flush=True)
        return
    with a_users_world(world) as theirs:
        data = directory(theirs, "data", 0o700)
        mount = f'mount -t tmpfs -o noexec,mode=700,uid={NOBODY},gid={NOBODY} none {data} && exec "$@"'
        server = Server(theirs, data, before=["unshare", "--mount", "sh", "-c", mount, "sh", *AS_NOBODY])
        try:
            eventually("the log has it", lambda: "noexec" in server.log())
        finally:
            server.stop()
