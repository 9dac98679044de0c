import json
import os
import sys
import time
import unittest
from pathlib import Path

from forking import ENTROPY, PYTHON, Clone, ForkTestCase, Peer, shares_descriptor, with_head

COUNT = """
    import os
    calls = 0
    def helper(): return 1
    def main(params):
        global calls
        calls += helper()
        return {"calls": calls, "pid": os.getpid()}
"""


class Life(ForkTestCase):
    def test_each_clone_begins_where_the_zygote_was_frozen(self):
        zygote = self.frozen(COUNT, options={"calls": 10})
        self.assertEqual(zygote.report["warmupCalls"], 10)
        for flags in (0, 1, 0):
            clone = self.clone(zygote, flags)
            first, second = clone.invoke().json(), clone.invoke().json()
            self.assertEqual((first["calls"], second["calls"]), (12, 13))  # the first warm-up call, its ten replays, this one

    def test_the_time_zone_that_restore_brings(self):
        zygote = self.frozen("import time\ndef main(params): return {'zone': time.strftime('%Z')}")
        clone = self.clone(zygote, restore=False)
        clone.send("RESTORE", payload=json.dumps({"entropy": ENTROPY, "time": 0, "instance": "i", "env": {"TZ": "XYZ-5"}}).encode())
        clone.expect("ACK")
        self.assertEqual(clone.invoke().json(), {"zone": "XYZ"})

    def test_what_a_warm_up_sets_in_a_context_variable_stays_in_it(self):
        zygote = self.frozen("""
            import contextvars
            variable = contextvars.ContextVar("variable", default=0)
            def main(params):
                variable.set(variable.get() + 1)
                return {"calls": variable.get()}
        """)
        clone = self.clone(zygote)
        self.assertEqual([clone.invoke().json() for _ in range(2)], [{"calls": 1}] * 2)

    def test_what_native_code_has_printed_comes_out_once(self):
        zygote = self.frozen("""
            import ctypes, gc, os
            library, zygote = ctypes.CDLL(None), os.getpid()
            def print_late(phase, info):
                if os.getpid() == zygote: library.printf(b"late ")
            library.printf(b"loaded ")
            def main(params):
                library.printf(b"called ")
                gc.callbacks[:] = [print_late]
                return {}
        """, options={"calls": 5})
        clone = self.clone(zygote)
        clone.invoke()
        clone.close()
        self.assertEqual(clone.stdout, "called ")
        self.assertEqual(zygote.close(), 0)
        self.assertEqual([zygote.stdout.count(text) for text in ("loaded", "called")], [1, 1])
        self.assertIn("late", zygote.stdout)

    def test_report(self):
        report = self.frozen(COUNT).report
        found = {function["name"]: function for function in report["functions"]}
        self.assertEqual(set(found), {"main", "helper"})
        self.assertEqual(found["main"], {"name": "main", "file": "function.py", "line": 5, "tier": "python", "calls": 1})
        self.assertEqual((report["reached"], report["optimised"]), (2, 0))
        self.assertGreater(report["rssBytes"], 1_000_000)

    def test_without_warm_up(self):
        zygote = self.frozen(COUNT, warmup=())
        self.assertEqual((zygote.report["warmupCalls"], self.clone(zygote).invoke().json()["calls"]), (0, 1))

    def test_many_clones_live_side_by_side(self):
        zygote = self.frozen(COUNT)
        clones = [self.clone(zygote) for _ in range(20)]
        self.assertEqual(len({clone.invoke().json()["pid"] for clone in clones}), 20)

    def test_each_clone_has_a_session_of_its_own(self):
        zygote = self.frozen(COUNT)
        for clone in [self.clone(zygote), self.clone(zygote)]:
            self.assertEqual(os.getsid(clone.pid), clone.pid)

    def test_clones_end_without_the_zygote(self):
        zygote = self.frozen(COUNT)
        clone = self.clone(zygote)
        clone.invoke()
        clone.socket.close()
        clone.wait()
        living = self.clone(zygote)
        living.invoke()
        # The other is reaped by the kernel, a moment after its outputs were closed.
        until = time.monotonic() + 60
        while children_of(zygote.process.pid) != [str(living.pid)] and time.monotonic() < until:
            time.sleep(0.01)
        self.assertEqual(children_of(zygote.process.pid), [str(living.pid)])
        self.assertEqual(zygote.close(), 0)

    def test_invoke_may_follow_restore_at_once(self):
        clone = self.clone(self.frozen(COUNT), restore=False)
        call = clone.begin({})
        clone.send("RESTORE", payload=json.dumps({"entropy": ENTROPY, "time": 1, "instance": "i"}).encode())
        clone.send("INVOKE", call, with_head(clone.head, b"{}"), fin=True)
        clone.expect("ACK")
        self.assertIn("calls", clone.answer(call).json())

    def test_invoke_before_restore_is_refused(self):
        clone = self.clone(self.frozen(COUNT), restore=False)
        clone.send("INVOKE", 1, b"\0\0\0\0{}", fin=True)
        self.assertEqual(clone.expect("ERROR").json()["kind"], "protocol")

    def test_exit(self):
        clone = self.clone(self.frozen("import sys\ndef main(params):\n    if params: sys.exit(3)\n    return {}"))
        self.assertEqual(clone.invoke({"a": 1}).error["message"], "The action exited (SystemExit: 3).")
        clone.wait()

    def test_exit_handlers_run_when_the_function_ends_a_clone(self):
        clone = self.clone(self.frozen("import atexit, sys\natexit.register(print, 'bye')\ndef main(params):\n    if params: sys.exit()\n    return {}"))
        clone.invoke({"a": 1})
        clone.wait()
        self.assertEqual(clone.stdout, "bye\n")

    def test_a_clone_that_cannot_be_made(self):
        zygote = self.frozen("import os, resource\nos.dup2(0, 200)\ndef main(params): return {}\nresource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))")
        clone = Clone(zygote, 1)
        self.addCleanup(clone.close)
        error = clone.expect("ERROR")
        self.assertEqual((error.call, error.json()["kind"]), (0, "snapshot"))
        self.assertIsNone(clone.receive())

    def test_without_ctypes_the_reason_is_said_and_calls_are_served(self):
        hidden = self.directory({"ctypes.py": "raise ImportError('no libffi')"})
        zygote = Peer([sys.executable, "-X", "utf8", "-s", str(PYTHON / "shim.py")], env=dict(os.environ, FLINT_ZYGOTE="1", PYTHONPATH=hidden))
        self.addCleanup(self._stop, zygote)
        hello = zygote.start(os.path.join(self.directory({"f.py": "import flint\nran = []\nflint.after_restore(ran.append, 1)\ndef main(params): return ran"}), "f.py"))
        self.assertEqual(hello["snapshot"], "this Python cannot be copied, it has no ctypes: no libffi")
        self.assertEqual(zygote.invoke(warmup=True).json(), [1])
        zygote.send("FREEZE", payload=b"{}")
        self.assertEqual(zygote.expect("ERROR").json()["kind"], "protocol")

    def test_a_plain_instance_refuses_freeze(self):
        peer = self.started(COUNT)
        peer.send("FREEZE", payload=b"{}")
        self.assertEqual(peer.expect("ERROR").json()["kind"], "protocol")

    def test_a_frozen_zygote_takes_nothing_but_clone(self):
        zygote = self.frozen(COUNT)
        zygote.send("INVOKE", 1, b"\0\0\0\0{}", fin=True)
        self.assertEqual(zygote.expect("ERROR").json()["kind"], "protocol")
        self.assertEqual(zygote.wait(), 3)

    def test_warm_up_that_exits(self):
        self.assertIn("exits in its warm-up", self.refused("import sys\nn = 0\ndef main(params):\n    global n\n    n += 1\n    if n > 5: sys.exit(1)\n    return {}"))

    def test_the_environment_of_warm_up_calls_is_gone(self):
        clone = self.clone(self.frozen("import os\nseen = os.environ.get('FLINT_ZYGOTE')\n"
                                       "def main(params): return {'api': os.environ.get('__OW_API_KEY'), 'seen': seen}"), restore=True)
        self.assertEqual(clone.invoke().json(), {"api": None, "seen": None})


class LifeWithoutHelper(Life):
    """As where there was no C compiler."""

    helper = "/nonexistent"


class Memory(ForkTestCase):
    SOURCE = "kept = [str(i) for i in range(500_000)]\ndef main(params): return {}"

    def test_huge_pages(self):
        if not os.path.exists("/sys/kernel/mm/transparent_hugepage"):
            return  # this kernel has none
        self.assertGreater(self.frozen(self.SOURCE).report["hugePageBytes"], 0)

    def test_huge_pages_only_when_asked_for(self):
        self.assertEqual(self.frozen(self.SOURCE, options={"hugePages": False}).report["hugePageBytes"], 0)

    def test_memory_that_was_never_written_stays_unused(self):
        report = self.frozen("import mmap\nkept = mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\ndef main(params): return {}").report
        self.assertLess(report["rssBytes"], 200 << 20)


class Output(ForkTestCase):
    def test_goes_to_the_clone_that_wrote_it(self):
        zygote = self.frozen("import sys\nprint('loading', end='')\ndef main(params):\n    print('in', params, end='')\n    print('err', file=sys.stderr)\n    return {}",
                             options={"calls": 30})
        clones = [self.clone(zygote) for _ in range(2)]
        for number, clone in enumerate(clones):
            clone.invoke({"n": number})
        for number, clone in enumerate(clones):
            clone.close()
            self.assertEqual((clone.stdout, clone.stderr), (f"in {{'n': {number}}}", "err\n"))
        zygote.close()
        self.assertEqual((zygote.stdout, zygote.stderr), ("loadingin {}", "err\n"))  # of the replays nothing


class Walls(ForkTestCase):
    def test_nothing_is_shared_but_dev_null(self):
        zygote = self.frozen("kept = open(__file__, 'rb', buffering=0)\nkept.read(7)\ndef main(params):\n    return {'read': kept.read(4).decode()}", warmup=())
        first, second = self.clone(zygote), self.clone(zygote)
        for fd in open_descriptors(first.pid):
            if os.readlink(f"/proc/{first.pid}/fd/{fd}") == "/dev/null":
                continue
            for other in (zygote.process.pid, second.pid):
                for of_other in open_descriptors(other):
                    self.assertFalse(shares_descriptor(first.pid, other, fd, of_other), (fd, of_other))
        self.assertEqual([clone.invoke().json()["read"] for clone in (first, second, first)], ["open", "open", "(__f"])

    def test_only_the_four_and_dev_null_are_open(self):
        clone = self.clone(self.frozen(COUNT))
        self.assertEqual(open_descriptors(clone.pid), [0, 1, 2, 3, 200])
        self.assertEqual(os.readlink(f"/proc/{clone.pid}/fd/200"), clone.tmp.name)

    def test_zygote_keeps_nothing_of_its_clones(self):
        zygote = self.frozen(COUNT)
        before = open_descriptors(zygote.process.pid)
        self.clone(zygote).invoke()
        self.assertEqual(open_descriptors(zygote.process.pid), before)

    def test_confined_and_hidden(self):
        zygote = self.frozen(COUNT)
        clone = self.clone(zygote)
        for pid in (zygote.process.pid, clone.pid):
            with open(f"/proc/{pid}/status", encoding="ascii") as file:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in file)
            self.assertEqual((status["Threads"], status["NoNewPrivs"]), ("1", "1"))
            self.assertEqual(status["SigBlk"], "0" * 16)

    def test_siblings_cannot_be_signalled(self):
        zygote = self.frozen("""
            import os, signal
            def main(params):
                outcomes = {}
                for name, pid in params.items():
                    try:
                        os.kill(pid, 0)
                        outcomes[name] = "sent"
                    except PermissionError:
                        outcomes[name] = "refused"
                return outcomes
        """)
        first, second = self.clone(zygote), self.clone(zygote)
        pids = {"zygote": zygote.process.pid, "sibling": second.pid, "self": first.pid}
        self.assertEqual(first.invoke(pids).json(), {"zygote": "refused", "sibling": "refused", "self": "sent"})

    def test_memory_of_siblings_is_out_of_reach(self):
        zygote = self.frozen("""
            def main(params):
                try:
                    open(f"/proc/{params['pid']}/mem", "rb")
                    return {"opened": True}
                except PermissionError:
                    return {"opened": False}
        """, warmup=())
        first, second = self.clone(zygote), self.clone(zygote)
        self.assertEqual(first.invoke({"pid": second.pid}).json(), {"opened": False})

    def test_children_of_a_clone_can_be_waited_for(self):
        zygote = self.frozen("import subprocess\ndef main(params):\n    return {'status': subprocess.run(['sh', '-c', 'exit 7']).returncode}")
        self.assertEqual(self.clone(zygote).invoke().json(), {"status": 7})

    def test_threads_and_children_of_a_clone(self):
        zygote = self.frozen("""
            import concurrent.futures, os, threading
            def main(params):
                with concurrent.futures.ThreadPoolExecutor(4) as pool:
                    total = sum(pool.map(lambda n: n * n, range(100)))
                child = os.fork()
                if child == 0:
                    os._exit(7)
                own = threading.main_thread().native_id == threading.get_native_id() == os.getpid()
                return {"total": total, "status": os.waitpid(child, 0)[1] >> 8, "own": own, "threads": threading.active_count()}
        """)
        for _ in range(3):
            self.assertEqual(self.clone(zygote).invoke({}).json(), {"total": 328350, "status": 7, "own": True, "threads": 1})

    def test_a_process_that_a_clone_forks_gives_no_answer(self):
        zygote = self.frozen("""
            import os, sys
            def main(params):
                child = os.fork()
                if child == 0:
                    if params.get("exits", True):
                        sys.exit(3)
                    return {"from": "the child"}
                return {"status": os.waitpid(child, 0)[1] >> 8}
        """)
        for flags in (0, 1):
            clone = self.clone(zygote, flags)
            for exits, status in ((True, 3), (False, 0)):
                self.assertEqual(clone.invoke({"exits": exits}).json(), {"status": status})

    def test_the_directory_of_a_function_that_works_in_tmp(self):
        # The zygote's /tmp is made to be the file system that all files of this test are on.
        source = "import os\nhere = os.open('.', os.O_RDONLY)\nos.dup2(here, 200)\nos.close(here)\n"
        clone = self.clone(self.frozen(source + "def main(params): return {'cwd': os.getcwd()}"))
        self.assertEqual(clone.invoke().json(), {"cwd": clone.tmp.name})
        message = self.refused(source + "kept = open(__file__)\ndef main(params): return {}")
        self.assertIn("function.py, which no clone has in its /tmp", message)

    LEAVES = """
        import os
        place = os.path.dirname(__file__) + "/tmp"
        os.mkdir(place)
        descriptor = os.open(place, os.O_RDONLY)
        os.dup2(descriptor, 200)
        os.close(descriptor)
        os.makedirs(f"{place}/folder/inner", 0o700)
        for name, text in {"folder/inner/file": "text", "script": "#!/bin/sh", "removed": "", ".cached": ""}.items():
            with open(f"{place}/{name}", "w") as file: file.write(text)
        os.chmod(f"{place}/script", 0o755)
        os.symlink("/tmp/folder", f"{place}/link")
        os.symlink(b"gone\\xff", place.encode() + b"/folder/\\xfe")
        open(place.encode() + b"/folder/\\xff", "w").write("bytes")
        os.makedirs(f"{place}/replaced/inner")
        def main(params):
            if not os.path.islink(f"{place}/replaced"):
                os.rmdir(f"{place}/replaced/inner")
                os.rmdir(f"{place}/replaced")
                os.symlink(f"{place}/folder", f"{place}/replaced")
            if os.path.exists(f"{place}/removed"):
                os.remove(f"{place}/removed")
            open(f"{place}/of-a-call", "w").close()
            return {}
    """

    def test_a_clone_finds_what_loading_leaves_in_tmp(self):
        for warmup, removed in (((), ["removed", "replaced/inner"]), (({},), [])):
            clone = self.clone(self.frozen(self.LEAVES, warmup=warmup), flags=1)
            found = {path.relative_to(clone.tmp.name).as_posix(): path for path in Path(clone.tmp.name).rglob("*")}
            self.assertEqual(sorted(found), sorted([".cached", "folder", "folder/inner", "folder/inner/file", "folder/\udcfe", "folder/\udcff", "link", "replaced", "script", *removed]))
            self.assertEqual(found["folder/inner/file"].read_text(), "text")
            self.assertEqual([found[name].stat().st_mode & 0o777 for name in ("script", "folder/inner")], [0o755, 0o700])
            self.assertEqual(os.readlink(found["link"]), "/tmp/folder")
            self.assertEqual((found["folder/\udcff"].read_text(), os.readlink(found["folder/\udcfe"])), ("bytes", "gone\udcff"))

    def test_more_than_a_copy_is_given_in_tmp_is_in_the_way(self):
        for more in ("open(f'{place}/large', 'wb').truncate(1 << 21)", "[open(f'{place}/{number}', 'w').close() for number in range(300)]"):
            message = self.refused(self.LEAVES.replace("        def main", f"        {more}\n        def main"))
            self.assertIn("loading the code leaves more in /tmp than the 1 MiB and 256 files that each copy is given (/tmp/", message)
            self.assertIn("write it in flint.after_restore", message)

    def test_programs_find_tmp(self):
        zygote = self.frozen("import subprocess\ndef main(params):\n"
                             "    done = subprocess.run('echo hello > /proc/self/fd/200/file', shell=True)\n    return {'status': done.returncode}", warmup=())
        clone = self.clone(zygote)
        self.assertEqual(clone.invoke().json(), {"status": 0})
        with open(os.path.join(clone.tmp.name, "file"), encoding="ascii") as file:
            self.assertEqual(file.read(), "hello\n")

    def test_four_descriptors_or_none(self):
        zygote = self.frozen(COUNT)
        zygote.send("CLONE", 1, b"\0")
        self.assertEqual(zygote.expect("ERROR").json()["kind"], "protocol")

    def test_handlers_of_fork_run_in_the_clone_when_it_is_one(self):
        zygote = self.frozen("""
            import os
            ran = []
            os.register_at_fork(before=lambda: ran.append("before"), after_in_parent=lambda: ran.append("parent"),
                                after_in_child=lambda: ran.append("child"))
            def main(params):
                status = None
                if params:
                    pid = os.fork()
                    if pid == 0: os._exit(len(ran))
                    status = os.WEXITSTATUS(os.waitpid(pid, 0)[1])
                return {"ran": ran, "status": status}
        """)
        for flags in (0, 1):
            clone = self.clone(zygote, flags)
            self.assertEqual(clone.invoke().json()["ran"], ["child"])
            self.assertEqual(clone.invoke({"fork": 1}).json(), {"ran": ["child", "before", "parent"], "status": 3})


def open_descriptors(pid):
    return sorted(int(name) for name in os.listdir(f"/proc/{pid}/fd"))


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return file.read().split()


if __name__ == "__main__":
    unittest.main()
