"""Functions that tamper with the snapshot that their calls are forked from: when they are loaded, in the warm-up, and after the freeze."""

import os
import shutil
import time
import unittest

from flint_server import wait_for
from platform_under_attack import PATIENT, PYTHON_PRELUDE, SHORT, UnderAttack

# What is left behind, what is said about it, and when: at load, or in each warm-up call.
LEFT_BEHIND = [
    ("py", "load", "import threading, time; threading.Thread(target=time.sleep, args=(600,), daemon=True, name='lurker').start()", "thread 'lurker'"),
    ("py", "warm-up", "libc.pthread_create(ctypes.byref(ctypes.c_ulong()), None, libc.pause, None)", "thread"),
    ("py", "load", "import subprocess; keep.append(subprocess.Popen(['/bin/sleep', '600']))", "sleep"),
    ("py", "warm-up", "import subprocess; keep.append(subprocess.Popen(['/bin/sleep', '600']))", "sleep"),
    ("py", "load", "import time\nif os.fork() == 0:\n    if os.fork() == 0: time.sleep(600)\n    os._exit(0)\ntime.sleep(0.1)", "child process"),
    ("py", "warm-up", "keep.append(socket.create_server(('127.0.0.1', 0)))", "socket"),
    ("py", "load", "keep.append(socket.socketpair())", "socket"),
    ("py", "warm-up", "keep.append(os.pipe())", "pipe"),
    ("py", "load", "keep.append(os.memfd_create('shared'))", "memfd"),
    ("py", "warm-up", "import mmap; keep.append(mmap.mmap(-1, 4096))", "shared memory"),
    ("py", "load", "import mmap; keep.append(mmap.mmap(-1, 4096, prot=mmap.PROT_READ))", "shared memory that can be made writable"),
    ("py", "warm-up", "keep.append(open('/tmp/log', 'w'))", "/log"),
    ("py", "load", "import signal; signal.setitimer(signal.ITIMER_REAL, 500)", "timer"),
    ("py", "warm-up", "import signal; signal.alarm(500)", "timer"),
    ("py", "load", "assert libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p())) == 0", "POSIX timers"),
    ("py", "load", "keep.append(os.pidfd_open(os.getpid()))", "pidfd"),
    ("js", "warm-up", "setInterval(() => {}, 1000)", "running timer"),
    ("js", "load", "require('net').createServer().listen(4712)", "Server"),
    ("js", "load", "new (require('worker_threads').Worker)('setInterval(() => {}, 1000)', { eval: true })", "extra thread"),
    ("js", "load", "require('child_process').spawn('/bin/sleep', ['600'], { stdio: 'ignore' })", "child process"),
    ("js", "load", "require('child_process').spawn('/bin/sh', ['-c', 'sleep 600 & exit'], { stdio: 'ignore', detached: true }).unref()", "child process"),
    ("js", "warm-up", "require('fs').openSync('/tmp/log', 'w')", "file descriptors"),
    ("js", "load", "require('dgram').createSocket('udp4').bind(0)", "Socket"),
]

SHARED_CODE = """
const fs = require('fs');
const name = (fd) => { try { return fs.readlinkSync('/proc/self/fd/' + fd); } catch { return ''; } };
const variable = process.env.FLINT_CODE ?? null;
function main() {
  const mappings = fs.readFileSync('/proc/self/maps', 'utf8').split('\\n').filter((line) => line.includes('flint-code'));
  const names = Array.from({ length: 256 }, (_, fd) => name(fd));
  return { variable, mappings, stdin_is_a_device: fs.fstatSync(0).isCharacterDevice(), memory_files: names.filter((name) => name.includes('memfd')) };
}
"""

# Written on the shim's link: nonsense, and frames that claim what is not so (FREEZE is done, the code is loaded, hello, a call has failed).
GARBAGE = ["b'\\xff' * 65536", "b'\\0' * 65536", "frame(7, 0, b'{}')", "frame(3, 0, b'')", "frame(1, 0, b'{}')", "frame(13, 1, b'{}')"]
FRAME = """
import struct
def frame(kind, call, payload): return struct.pack('>IBBHI', len(payload), kind, 0, 0, call) + payload
"""

# Both calls hand what they see to whatever native code or patched functions of the zygote may have kept.
PATCHED = {
    "py": PYTHON_PRELUDE + """
import builtins, gc, json, time
seen = []
def spy(module, name):
    original = getattr(module, name)
    def wrapper(*args, **kwargs):
        result = original(*args, **kwargs)
        seen.append(repr(args) + repr(result))
        return result
    try: setattr(module, name, wrapper)
    except (AttributeError, TypeError): pass
for module, name in [(json, 'loads'), (json, 'dumps'), (os, 'fork'), (os, 'dup2'), (socket.socket, 'recvmsg'), (builtins, 'open'), (os, 'readv'), (os, 'write')]: spy(module, name)
def main(params):
    time.sleep(params.get('wait', 0))
    try: seen.append(open('/tmp/seen').read())
    except OSError: pass
    with open('/tmp/seen', 'a') as file: file.write(params['secret'])
    return {'secret': params['secret'], 'seen': ''.join(seen) + str(gc.get_objects()[:0]) + str(dict(os.environ))}
""",
    "js": """
const fs = require('fs');
const seen = [];
function spy(owner, name) {
  const original = owner[name];
  owner[name] = function (...values) { const result = Reflect.apply(original, this, values); if (seen.length < 1e4) seen.push(String(values[0]).slice(0, 400)); return result; };
}
for (const [owner, name] of [[JSON, 'parse'], [JSON, 'stringify'], [Buffer.prototype, 'toString'], [fs, 'writeSync'], [process, 'emit'], [Function.prototype, 'call'], [Promise.prototype, 'then'], [Object, 'assign']]) spy(owner, name);
exports.main = async ({ secret, wait = 0 }) => {
  if (wait) await new Promise((resolve) => setTimeout(resolve, wait * 1000));
  if (fs.existsSync('/tmp/seen')) seen.push(fs.readFileSync('/tmp/seen', 'utf8'));
  fs.appendFileSync('/tmp/seen', secret);
  return { secret, seen: seen.filter((text) => text.includes('secret-')).join('') };
};
""",
}

# Code of the shim, replaced: what runs in the zygote after the freeze, when it is asked for a clone.
AFTER_THE_FREEZE = PYTHON_PRELUDE + """
import mmap, posix, threading, time
from flint_shim.snapshot import fork, clones, descriptors, native, memory
descriptors.Descriptors.are_more = lambda self: True  # the way without the native helper: it is in Python, and can be replaced
keep, plain = [], posix.fork
def at_fork(act):
    def forked(self):
        act()
        return plain()
    fork.Fork.fork = forked
def keep_descriptors():
    original = clones.CloneRequests.next
    def next(self):
        call, flags, descriptors = original(self)
        keep.extend(os.dup(fd) for fd in descriptors)
        return call, flags, descriptors
    clones.CloneRequests.next = next
def share_memory():
    at_fork(lambda: keep.append(mmap.mmap(-1, 4096)))
def start_thread():
    at_fork(lambda: threading.Thread(target=time.sleep, args=(600,), daemon=True).start())
def fork_more():
    def act():
        if plain() == 0: time.sleep(600)
    at_fork(act)
def stepchild():
    def forked(self):
        pid = plain()
        if pid == 0 and plain() != 0: time.sleep(600)
        return pid
    fork.Fork.fork = forked
def share_directory():
    fork.Fork.fork = lambda self: libc.syscall(56, 0x200 | 17, 0, 0, 0, 0)
def brothers():
    fork.Fork.fork = lambda self: libc.syscall(56, 0x8000 | 17, 0, 0, 0, 0)
def open_socket():
    at_fork(lambda: keep.append(socket.socketpair()))
def be_dumpable():
    at_fork(lambda: libc.prctl(4, 1, 0, 0, 0))
def end():
    at_fork(lambda: os._exit(0))
def kill():
    at_fork(lambda: os.kill(os.getpid(), 9))
def hang():
    at_fork(lambda: time.sleep(600))
def garbage():
    at_fork(lambda: os.write(3, b'\\xff' * 65536))
def alarm():
    import signal
    original = memory.use_huge_pages
    def late():
        signal.setitimer(signal.ITIMER_REAL, 5)
        return original()
    memory.use_huge_pages = late
def unconfined():
    native.confine = lambda: None
ATTACK()
def main(params): return {"n": params["n"]}
"""


class Zygotes(UnderAttack):
    def test_what_clones_would_share_is_named_and_the_function_falls_back(self):
        def check(number, language, when, act, reason):
            if language == "py":
                act = "keep = []\ndef act():\n    " + "\n    ".join(act.splitlines()) + "\n"
                code = PYTHON_PRELUDE + act + ("act()\ndef main(params): return {}\n" if when == "load" else "def main(params):\n    act()\n    return {}\n")
            else:
                code = f"{act};\nexports.main = () => ({{}});" if when == "load" else f"exports.main = () => {{ {act}; return {{}}; }};"
            name = f"left-{number}"
            prepared = self.deploy(name, language, code, start=None, limits=PATIENT, warmup=[{}] if when == "warm-up" else [])
            self.assertEqual((prepared.get("strategy") or {}).get("start"), "spawn", prepared)
            self.assertIn(reason, prepared["fallback"])
            explanation = self.server.request("GET", f"/v1/explain/{name}").json()
            self.assertEqual(explanation["strategy"]["start"], "spawn")
            self.assertIn(prepared["fallback"], " ".join(explanation["reasons"]))

        self.each(check, LEFT_BEHIND)

    def test_garbage_on_the_link_before_the_freeze_is_refused_or_harmless(self):
        def check(number, garbage, where):
            write = f"os.write(3, {garbage})"
            code = f"{write}\ndef main(params): return {{'n': params['n']}}\n" if where == "load" else f"def main(params):\n    {write}\n    return {{'n': params['n']}}\n"
            name = f"garbage-{number}"
            prepared = self.deploy(name, "py", PYTHON_PRELUDE + FRAME + code, warmup=[{"n": 0}])
            if "refused" not in prepared:
                for n, (status, response) in enumerate(self.at_once([(name, {"n": n}) for n in range(3)])):
                    # An error, or the call's own answer.
                    self.assertTrue(status != 200 or response["result"] == {"n": n}, response)

        self.each(check, [(garbage, where) for garbage in GARBAGE for where in ("load", "warm-up")])

    def test_exhausting_the_zygote_is_refused_with_the_reason(self):
        # By itself: beside those that take the processor it might come to its time limit first.
        hoarder = {"hoard = []\n    while True: hoard.append(bytearray(8 << 20))": "exhausted its memory"}
        bombs = {
            "import threading, time\n    while True: threading.Thread(target=time.sleep, args=(600,), daemon=True).start()": "",
            "import time\n    while True:\n        if os.fork() == 0: time.sleep(600)": "",
            "while True: pass": "time limit",
            "while True:\n        try: os.fork()\n        except OSError: pass": "",
            "os._exit(0)": "ended without an answer",
            "os.kill(os.getpid(), 9)": "ended without an answer",
        }

        def check(number, act, reason, where):
            code = f"def act():\n    {act}\nact()\ndef main(params): return {{}}\n" if where == "load" else f"def main(params):\n    {act}\n"
            # What has an end of its own is not to meet its time limit.
            limits = PATIENT if reason not in ("", "time limit") else SHORT
            warmup = [{}] if where == "warm-up" else []
            prepared = self.deploy(f"bomb-{len(act)}-{where}-{number}", "py", PYTHON_PRELUDE + code, start=None, limits=limits, warmup=warmup)
            # Or it is frozen without having been warmed up, which a note says.
            said = prepared.get("refused") or prepared.get("fallback") or str(prepared["snapshot"]["notes"])
            self.assertIn(reason, said)
            self.assertGreater(len(said), 30)
            self.assertNotIn("internal server error", said)

        def cases(bombs):
            return [(act, reason, where) for act, reason in bombs.items() for where in ("load", "warm-up")]

        self.each(check, cases(hoarder), at_once=1)
        self.each(check, cases(bombs), at_once=3)

    def test_nothing_leads_to_the_memory_of_the_code_that_snapshots_share(self):
        prepared = self.deploy("looks", "js", SHARED_CODE, warmup=[{}], limits=PATIENT)
        self.assertEqual(prepared["strategy"]["start"], "fork", prepared)
        self.assertNotIn("flint-code", str(prepared), "it is no native code of the function's")
        status, record = self.server.invoke("looks")
        seen = record["response"]["result"]
        self.assertEqual((status, seen["variable"], seen["stdin_is_a_device"], seen["memory_files"]), (200, None, True, []), record)
        kernel = tuple(map(int, os.uname().release.split("-")[0].split(".")[:2]))
        with open(shutil.which("node"), "rb") as program:
            has_fixed_addresses = program.read(18)[16] == 2
        # A host may be out of huge pages.
        access = [line.split()[1] for line in seen["mappings"]]
        self.assertIn(access, [["r-xp"], []] if has_fixed_addresses and kernel >= (6, 1) else [[]], record)

    def test_patched_builtins_see_their_own_call_only(self):
        for language, code in PATCHED.items():
            with self.subTest(language=language):
                prepared = self.deploy("patched", language, code, warmup=[{"secret": "warm-up"}], limits=PATIENT)
                self.assertTrue(prepared["snapshot"]["kept"], prepared)
                secrets = [f"secret-{n}-of-{language}" for n in range(4)]
                for _ in range(2):
                    answers = self.at_once([("patched", {"secret": secret, "wait": 0.3}) for secret in secrets])
                    for secret, (status, response) in zip(secrets, answers):
                        self.assertEqual((status, response["result"].get("secret")), (200, secret), response)
                        others = [other for other in secrets if other != secret and other in response["result"]["seen"]]
                        self.assertEqual(others, [])

    def warnings(self, name):
        return [line for line in self.server_log().splitlines() if "tampered" in line and name in line]

    def test_a_zygote_that_changes_after_the_freeze_is_noticed(self):
        noticed = ["keep_descriptors", "share_memory", "start_thread", "stepchild", "share_directory", "fork_more"]
        ended = ["end", "kill", "brothers"]
        erratic = ["garbage", "alarm"]  # ended with its clones: as soon as it is read, and five seconds after each freeze
        harmless = ["be_dumpable", "unconfined", "open_socket"]
        silent = ["hang"]

        def check(_, attack):
            name = f"late-{attack.replace('_', '-')}"
            # Fifteen load at once, and only what hangs is to meet its time limit: where it does so by loading, it is given more, but less
            # than it takes until three of its snapshots have been given up.
            for limits in (SHORT, {**SHORT, "timeout_ms": 20000}) if attack in silent else (PATIENT,):
                prepared = self.deploy(name, "py", AFTER_THE_FREEZE.replace("ATTACK", attack), limits=limits)
                if prepared.get("strategy", {}).get("start") == "fork":
                    break
            self.assertTrue(prepared["snapshot"]["kept"], prepared)
            if attack == "alarm":
                time.sleep(6)  # it has gone off by then
            answers = [self.call(name, {"n": n}) for n in range(2 if attack in silent else 4)]
            for n, (status, response) in enumerate(answers):
                self.assertTrue(status != 200 or response["result"] == {"n": n}, response)
            if attack in noticed:
                # Log lines are written by a thread of their own.
                wait_for(lambda: len(self.warnings(name)) >= 3, 60, "a warning of each of its snapshots")
            if attack in noticed + ended:
                self.assertEqual(answers[3][0], 200, f"it is started otherwise in the end: {answers}")
            if attack == "alarm":
                self.assertEqual(answers[0][0], 200, f"a snapshot that ended between calls costs none of them: {answers}")
            if attack in harmless:
                self.assertEqual({status for status, _ in answers}, {200}, answers)
            if attack in silent:
                self.assertEqual({response["status"] for _, response in answers}, {"action developer error"}, answers)

        self.each(check, [(attack,) for attack in noticed + ended + erratic + harmless + silent], at_once=15)


if __name__ == "__main__":
    unittest.main()
