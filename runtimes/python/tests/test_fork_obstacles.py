"""What keeps a function from being copied is named; what only looks like it is cleared away."""

import os
import unittest

from forking import ForkTestCase

PLAIN = "\ndef main(params): return {}\n"


class Refusals(ForkTestCase):
    def check(self, source, *expected, **how):
        message = self.refused(source + PLAIN, **how)
        for text in expected:
            self.assertIn(text, message)

    def test_a_thread_of_python(self):
        self.check("import threading, time\nthreading.Thread(target=time.sleep, args=(60,), name='poller', daemon=True).start()",
                   "the thread 'poller' is running", "flint.before_snapshot")

    def test_a_thread_pool(self):
        self.check("from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\npool.submit(int).result()", "ThreadPoolExecutor-0_0")

    def test_a_thread_that_python_does_not_know(self):
        # A timer of librt's with a thread for its notifications would do; the C library's own thread functions are at hand.
        self.check("import ctypes\nlibc = ctypes.CDLL(None)\nthread = ctypes.c_ulong()\nsleep = libc.sleep\n"
                   "assert libc.pthread_create(ctypes.byref(thread), None, sleep, ctypes.c_void_p(60)) == 0",
                   "native code keeps 1 thread: set OPENBLAS_NUM_THREADS=1")

    def test_open_sockets(self):
        self.check("import socket\nkept = socket.socket()", "an open socket (descriptor ")

    def test_open_pipes(self):
        self.check("import os\nkept = os.pipe()", "an open pipe (descriptor ")

    def test_an_epoll(self):
        self.check("import select\nkept = select.epoll()", "an open anon_inode:[eventpoll] (descriptor ")

    def test_a_file_that_is_written(self):
        name = os.path.join(self.directory({"log": ""}), "log")
        self.check(f"kept = open({name!r}, 'a')", f"the file {name}, open for writing")

    def test_a_child_process(self):
        self.check("import subprocess\nkept = subprocess.Popen(['cat'], stdin=subprocess.PIPE)", "child processes are running (cat, pid ")

    def test_a_pool_of_processes(self):
        self.check("import multiprocessing\nif True:\n    pool = multiprocessing.get_context('fork').Pool(1)", "child processes are running", "pools of multiprocessing")

    def test_shared_memory(self):
        self.check("import mmap\nkept = mmap.mmap(-1, 4096)", "shared memory that can be written")

    def test_a_timer(self):
        self.check("import signal\nsignal.alarm(600)", "a timer is set (signal.alarm or signal.setitimer)")

    def test_an_event_loop_of_ones_own(self):
        self.check("import asyncio\nkept = asyncio.new_event_loop()", "1 event loops of your own are open")

    def test_a_pending_task(self):
        message = self.refused("""
            import asyncio
            tasks = []
            async def main(params):
                if not tasks:
                    tasks.append(asyncio.create_task(asyncio.sleep(600), name="refresher"))
                return {}
        """)
        self.assertIn("asyncio tasks are running (refresher)", message)

    def test_several_at_once(self):
        self.check("import os, socket\nkept = os.pipe(), socket.socket()", "an open pipe", "an open socket")


class Cleared(ForkTestCase):
    def answer(self, source, **how):
        return self.clone(self.frozen(source, **how)).invoke().json()

    def test_children_that_have_ended(self):
        self.assertEqual(self.answer("import os, subprocess\nkept = subprocess.Popen(['true'])\n"
                                     "os.waitid(os.P_PID, kept.pid, os.WEXITED | os.WNOWAIT)\ndef main(params): return {}"), {})

    def test_the_event_loop_of_an_async_function(self):
        zygote = self.frozen("""
            import asyncio
            lock, loops = asyncio.Lock(), set()
            async def main(params):
                loops.add(asyncio.get_running_loop())
                async def one():
                    async with lock: await asyncio.sleep(0.001)
                await asyncio.gather(one(), one())
                process = await asyncio.create_subprocess_exec("true")
                return {"loops": len(loops), "status": await process.wait(), "thread": await asyncio.to_thread(str, 7)}
        """ if hasattr(__import__("asyncio"), "to_thread") and __import__("sys").version_info >= (3, 10) else """
            import asyncio
            loops = set()
            async def main(params):
                loops.add(asyncio.get_running_loop())
                await asyncio.sleep(0.001)
                return {"loops": len(loops), "status": 0, "thread": await asyncio.to_thread(str, 7)}
        """, options={"calls": 3})
        for _ in range(2):
            clone = self.clone(zygote)
            for _ in range(2):
                self.assertEqual(clone.invoke().json(), {"loops": 1, "status": 0, "thread": "7"})

    def test_patched_os_functions(self):
        self.assertEqual(self.answer("import os\nos.fork = os.close = os.dup2 = None\ndef main(params): return {}"), {})

    def test_closed_output(self):
        clone = self.clone(self.frozen("import os\nos.close(2)\ndef main(params):\n    print('still')\n    return {}"))
        clone.invoke()
        clone.close()
        self.assertEqual(clone.stdout, "still\n")

    def test_garbage_collection_goes_on_in_clones(self):
        self.assertEqual(self.answer("import gc\ndef main(params): return {'on': gc.isenabled()}"), {"on": True})
        self.assertEqual(self.answer("import gc\ngc.disable()\ndef main(params): return {'on': gc.isenabled()}"), {"on": False})

    def test_threads_of_libraries_are_limited_unless_the_function_says_otherwise(self):
        source = "import os\nnames = ('OPENBLAS_NUM_THREADS', 'NUMBA_NUM_THREADS')\nseen = [os.environ.get(name) for name in names]\ndef main(params): return seen"
        self.assertEqual(self.answer(source), ["1", "1"])
        self.assertEqual(self.answer(source, init_env={"OPENBLAS_NUM_THREADS": "3"}), ["3", "1"])

    def test_handler_of_child_signals_is_the_functions_again(self):
        self.assertEqual(self.answer("import signal\nheard = []\nsignal.signal(signal.SIGCHLD, lambda *_: heard.append(1))\nimport subprocess\n"
                                     "def main(params):\n    subprocess.run(['true'])\n    return {'heard': bool(heard)}", warmup=()), {"heard": True})

    def test_signals_blocked_by_the_function(self):
        self.assertEqual(self.answer("import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
                                     "def main(params): return [int(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])]"), [])


if __name__ == "__main__":
    unittest.main()
