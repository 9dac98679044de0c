"""What a Python process must still be able to do in a clone: one case a call, params["case"]; params["cases"] asks for the names.

Network cases stay on this machine. A case whose part of the standard library the interpreter was built without is not listed.
"""

import asyncio
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

cases = {}


def case(*needs):
    def register(function):
        if all(importlib.util.find_spec(name) for name in needs):
            cases[function.__name__] = function
        return function
    return register


@case()
async def sleeping():
    begin = time.monotonic()
    await asyncio.gather(*(asyncio.sleep(0.02) for _ in range(20)))
    assert time.monotonic() - begin >= 0.019


@case()
async def timeout():
    try:
        await asyncio.wait_for(asyncio.sleep(60), 0.01)
    except asyncio.TimeoutError:
        return
    raise AssertionError("it was not cancelled")


@case()
async def queue():
    numbers, total = asyncio.Queue(2), 0
    producer = asyncio.ensure_future(produce(numbers))
    while (number := await numbers.get()) is not None:
        total += number
    await producer
    assert total == 45


async def produce(numbers):
    for number in [*range(10), None]:
        await numbers.put(number)


@case()
async def to_thread():
    assert await asyncio.to_thread(threading.current_thread) is not threading.main_thread()


@case()
async def streams():
    async def echo(reader, writer):
        writer.write(await reader.read())
        writer.close()

    path = os.path.join(tempfile.mkdtemp(), "socket")
    server = await asyncio.start_unix_server(echo, path)
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"echo")
    writer.write_eof()
    assert await reader.read() == b"echo"
    writer.close()
    server.close()


@case()
async def child_of_the_loop():
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(6 * 7)", stdout=subprocess.PIPE)
    out, _ = await child.communicate()
    assert (child.returncode, out) == (0, b"42\n")


@case()
async def signal_of_the_loop():
    got = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, got.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    await asyncio.wait_for(got.wait(), 10)


@case()
def loop_of_ones_own():
    result = []
    thread = threading.Thread(target=lambda: result.append(asyncio.run(asyncio.sleep(0.001, "done"))))
    thread.start()
    thread.join()
    assert result == ["done"]


@case()
def threads():
    lock, total = threading.Lock(), [0]

    def add():
        for _ in range(100):
            with lock:
                total[0] += 1

    workers = [threading.Thread(target=add) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert total == [800]


@case()
def thread_timer():
    rang = threading.Event()
    threading.Timer(0.01, rang.set).start()
    assert rang.wait(10)


@case()
def thread_pool():
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(len, ["a", "bb", "ccc"])) == 6


@case("_multiprocessing")
def processes():
    from multiprocessing import get_context
    ours, theirs = get_context("fork").Pipe()
    child = get_context("fork").Process(target=lambda: theirs.send(os.getpid()))
    child.start()
    assert ours.recv() == child.pid
    child.join()
    assert child.exitcode == 0


@case()
def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5


@case()
def child():
    done = subprocess.run([sys.executable, "-c", "import sys; print(sys.stdin.read() * 2); sys.exit(7)"], input="ab", capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, "abab\n")


@case()
def child_that_is_ended():
    sleeper = subprocess.Popen(["sleep", "60"])
    sleeper.terminate()
    assert sleeper.wait(10) == -signal.SIGTERM


@case()
def signals():
    got = []
    signal.signal(signal.SIGUSR2, lambda number, _: got.append(number))
    os.kill(os.getpid(), signal.SIGUSR2)
    assert got == [signal.SIGUSR2]


@case()
def alarm():
    # No event: the signal may come while wait() holds the lock that set() takes.
    got = []
    signal.signal(signal.SIGALRM, lambda number, _: got.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    end = time.monotonic() + 10
    while not got and time.monotonic() < end:
        time.sleep(0.01)
    assert got == [signal.SIGALRM]


@case()
def select_and_poll():
    import select
    reader, writer = os.pipe()
    with select.epoll() as poll:
        poll.register(reader, select.EPOLLIN)
        os.write(writer, b"x")
        assert poll.poll(10) == [(reader, select.EPOLLIN)]
    assert select.select([reader], [], [], 10)[0] == [reader]


@case()
def http():
    import http.client
    import http.server

    class Echo(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body[::-1])

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.handle_request).start()
        connection = http.client.HTTPConnection(*server.server_address)
        connection.request("POST", "/", b"abc")
        assert connection.getresponse().read() == b"cba"


@case()
def names():
    try:
        assert socket.getaddrinfo("localhost", 80)
    except socket.gaierror:
        pass  # no hosts file and no network: the resolver has answered


@case("_ssl")
def tls():
    import ssl
    context = ssl.create_default_context()
    inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(inward, outward, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        assert outward.pending > 100


@case("_hashlib")
def hashes():
    import hashlib
    assert hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 1000) == hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 1000)
    assert hashlib.scrypt(b"secret", salt=b"salt", n=16, r=8, p=1) != hashlib.scrypt(b"other", salt=b"salt", n=16, r=8, p=1)


@case("zlib", "_bz2", "_lzma")
def compression():
    import bz2
    import lzma
    import zlib
    data = b"flint " * 20000
    for module in (bz2, lzma, zlib):
        assert module.decompress(module.compress(data)) == data


@case("_sqlite3")
def database():
    import sqlite3
    # In memory: SQLite resolves links by itself, and a clone's /tmp is one to a mount without a path.
    with sqlite3.connect(":memory:") as connection:
        connection.execute("create table t (n)")
        connection.executemany("insert into t values (?)", [(n,) for n in range(100)])
        assert connection.execute("select sum(n) from t").fetchone() == (4950,)


@case()
def files():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file")
        with open(path, "w", encoding="utf-8") as file:
            file.write("text")
        os.rename(path, path + "2")
        assert open(path + "2", encoding="utf-8").read() == "text"


@case()
def memory_map():
    import mmap
    with mmap.mmap(-1, 8192) as memory:
        memory[:5] = b"flint"
        assert memory[:5] == b"flint"


@case("_ctypes")
def native_code():
    import ctypes
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))(lambda a, b: a[0] - b[0])
    numbers = (ctypes.c_int * 4)(3, 1, 4, 1)
    ctypes.CDLL(None).qsort(numbers, 4, ctypes.sizeof(ctypes.c_int), compare)
    assert list(numbers) == [1, 1, 3, 4]


@case()
def garbage():
    import gc
    assert gc.isenabled()
    kept = []
    for i in range(200):
        ring = [[i, j] for j in range(500)]
        ring[0].append(ring)
        kept = (kept + [ring])[-10:]
    gc.collect()
    assert len(kept) == 10


@case()
def new_code():
    space = {}
    exec(compile("def total(n):\n    s = 0\n    for i in range(n): s = (s + i * 3) % 1000003\n    return s", "<new>", "exec"), space)
    assert space["total"](100000) == space["total"](100000)


@case()
def new_imports():
    assert "statistics" not in sys.modules
    import statistics
    assert statistics.median([3, 1, 2]) == 2


@case()
def context_variables():
    import contextvars
    variable = contextvars.ContextVar("variable", default=1)
    contextvars.copy_context().run(variable.set, 2)
    assert variable.get() == 1


@case()
def clocks():
    assert abs(time.time() - os.stat(tempfile.mkdtemp()).st_mtime) < 60
    assert time.process_time() < 60


@case()
def output():
    print("to stdout")
    os.write(2, b"to stderr\n")


async def main(params):
    if params.get("cases"):
        return {"cases": list(cases)}
    if params.get("case") in cases:
        result = cases[params["case"]]()
        if asyncio.iscoroutine(result):
            await result
    return {"ok": True}
