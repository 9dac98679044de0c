"""What must differ from clone to clone, and what a function may do around the snapshot."""

import unittest

from forking import ForkTestCase
from packages import packages_with

CLONES = 500

GENERATORS = """
    import os, random, secrets, ssl, string, tempfile, time, uuid
    from multiprocessing import current_process
    from random import random as imported_random, randint

    own, system, chosen = random.Random(), random.SystemRandom(), random.Random(42)

    def main(params):
        return {
            "random.random": random.random(), "from random import": imported_random(), "random.randint": randint(0, 2**64),
            "random.Random()": own.random(), "random.SystemRandom": system.random(), "random.gauss": random.gauss(0, 1),
            "random.randbytes": random.getrandbits(128),
            "os.urandom": os.urandom(16).hex(), "secrets": secrets.token_hex(),
            "uuid1": str(uuid.uuid1()), "uuid1 node": uuid.uuid1().node, "uuid4": str(uuid.uuid4()), "uuid.getnode": uuid.getnode(),
            "ssl.RAND_bytes": ssl.RAND_bytes(16).hex(), "tempfile": tempfile.mktemp(), "authkey": current_process().authkey.hex(),
            "same: Random(42)": chosen.random(), "same: hash": hash("text"),
            "time": time.time(),
        }
"""

NUMPY = """
    import numpy
    shared, own, chosen = numpy.random, numpy.random.default_rng(), numpy.random.default_rng(42)
    philox = numpy.random.Generator(numpy.random.Philox())
    legacy = numpy.random.RandomState(42)
    def main(params):
        return {"numpy.random.random": shared.random(), "numpy.random.randint": int(shared.randint(0, 2**62)), "default_rng()": own.random(),
                "Philox()": philox.random(), "default_rng": numpy.random.default_rng().random(),
                "same: default_rng(42)": chosen.random(), "same: RandomState(42)": legacy.random_sample()}
"""


class Unique(ForkTestCase):
    def values(self, zygote, clones):
        """The values of each name over many clones, a few alive at a time."""
        found = {}
        for _ in range(clones):
            clone = self.clone(zygote)
            for name, value in clone.invoke().json().items():
                found.setdefault(name, []).append(value)
            clone.close()
        return found

    def check(self, found):
        for name, values in found.items():
            with self.subTest(name):
                self.assertEqual(len(set(values)), 1 if name.startswith("same: ") else len(values))

    def test_generators(self):
        self.check(self.values(self.frozen(GENERATORS, warmup=({}, {})), CLONES))

    def test_its_process_and_main_thread_are_its_own(self):
        zygote = self.frozen("""
            import os, threading
            def main(params):
                return [os.getpid(), threading.get_native_id(), threading.main_thread().native_id]
        """, warmup=({},))
        for _ in range(3):
            clone = self.clone(zygote)
            self.assertEqual(clone.invoke().json(), [clone.pid] * 3)
            clone.close()

    def test_entropy_of_restore_counts(self):
        clone = self.clone(self.frozen("def main(params): return {}"), restore=False)
        answer = clone.restore("not hexadecimal")
        self.assertEqual((answer.kind, answer.json()["kind"]), ("ERROR", "protocol"))

    def test_numpy(self):
        packages = packages_with(self, "numpy")
        # The directory stands for a virtual environment beside the code.
        found = self.values(self.frozen(NUMPY, warmup=({}, {}), env={"PYTHONPATH": packages}), 100)
        self.check(found)


class Hooks(ForkTestCase):
    def test_order_arguments_and_names(self):
        zygote = self.frozen("""
            import flint, snapshot_restore_py
            ran = []
            @flint.before_snapshot
            async def first(): ran.append("first")
            snapshot_restore_py.register_before_snapshot(ran.append, "second")
            flint.beforeSnapshot(ran.append, "third")
            @snapshot_restore_py.register_after_restore
            def fourth(): ran.append("fourth")
            @flint.after_restore
            async def fifth(): ran.append("fifth")
            flint.afterRestore(ran.append, "sixth")
            def main(params): return {"ran": list(ran)}
        """)
        before = ["third", "second", "first"]
        for _ in range(2):
            self.assertEqual(self.clone(zygote).invoke().json()["ran"], before + ["fourth", "fifth", "sixth"])

    def test_what_functions_see_of_the_runtime(self):
        peer = self.started("import flint\ndef main(params): return [name for name in dir(flint) if not name.startswith('_')]")
        self.assertEqual(peer.invoke().json(), ["Context", "Response", "afterRestore", "after_restore", "beforeSnapshot", "before_snapshot"])

    def test_after_restore_runs_where_no_copies_are_made(self):
        peer = self.started("import flint\nran = []\nflint.before_snapshot(ran.append, 'before')\nflint.after_restore(ran.append, 'after')\n"
                            "def main(params): return ran")
        self.assertEqual(peer.invoke().json(), ["after"])

    def test_after_restore_that_fails(self):
        clone = self.clone(self.frozen("import flint\n@flint.after_restore\ndef connect(): raise OSError('no database')\ndef main(params): return {}"),
                           restore=False)
        answer = clone.restore()
        self.assertEqual((answer.kind, answer.call, answer.json()["kind"]), ("ERROR", 0, "developer"))
        self.assertIn("after_restore hook has failed: OSError: no database", answer.json()["message"])
        clone.wait()
        self.assertIn("in connect", clone.stderr)

    def test_before_snapshot_that_fails(self):
        message = self.refused("import flint\n@flint.before_snapshot\ndef close(): raise OSError('stuck')\ndef main(params): return {}")
        self.assertEqual(message, "a before_snapshot hook failed: OSError: stuck")
        message = self.refused("import flint\nclass E(Exception):\n    def __str__(self): return 404\n@flint.before_snapshot\ndef close(): raise E\ndef main(params): return {}")
        self.assertEqual(message, "a before_snapshot hook failed: E: <exception str() failed>")

    def test_a_hook_closes_what_is_in_the_way(self):
        zygote = self.frozen("""
            import flint, socket
            pair = socket.socketpair()
            @flint.before_snapshot
            def close():
                for one in pair: one.close()
            @flint.after_restore
            def connect():
                global pair
                pair = socket.socketpair()
            def main(params):
                pair[0].sendall(b"ping")
                return {"got": pair[1].recv(4).decode()}
        """)
        self.assertEqual(self.clone(zygote).invoke().json(), {"got": "ping"})

    def test_time_is_right(self):
        import time

        clone = self.clone(self.frozen("import time\ndef main(params): return {'time': time.time()}"))
        before = time.time()
        self.assertTrue(before <= clone.invoke().json()["time"] <= time.time())


if __name__ == "__main__":
    unittest.main()
