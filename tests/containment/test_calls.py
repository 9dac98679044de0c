"""The call wall: calls of one function, each in a fork of one snapshot, one of them hostile."""

import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

from flint_server import wait_for
from platform_under_attack import PATIENT, PYTHON_PRELUDE, SHORT, UnderAttack

# Siblings of bombs share their limit: enough for them beside the bombs, and not too much for those.
A_WHILE = {**SHORT, "timeout_ms": 20000}

# A call that has a secret everywhere it can be, and one that looks for it everywhere it can.
PARTIES = PYTHON_PRELUDE + """
import glob, mmap, resource, signal, time

def hide(secret):
    os.environ['SECRET'] = secret
    open('/tmp/secret', 'w').write(secret)
    memory = os.memfd_create('secret')
    os.write(memory, secret.encode())
    listener = socket.socket(socket.AF_UNIX)
    listener.bind('\\0secret')
    listener.listen()
    named = socket.socket(socket.AF_UNIX)
    named.bind('/tmp/socket')
    named.listen()
    scheduled = lambda: [os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), len(os.sched_getaffinity(0)), resource.getrlimit(resource.RLIMIT_CPU)[0]]
    before, end = scheduled(), time.monotonic() + 2
    while time.monotonic() < end:
        time.sleep(0.01)
    return {'secret': open('/tmp/secret').read(), 'env': os.environ['SECRET'], 'tmp': sorted(os.listdir('/tmp')), 'unharmed': before == scheduled()}

def within(pid):
    found = {}
    for name in ('mem', 'maps', 'environ', 'cmdline', 'status', 'fd/3', 'fd/1', 'fd/200', 'cwd/x', 'root/tmp/secret', 'task'):
        found[name] = attempt(lambda: open(f'/proc/{pid}/{name}', 'rb').read(64))
    buffer = ctypes.create_string_buffer(64)
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 64)
    found['process_vm_readv'] = syscall(310, pid, vector, 1, vector, 1, 0)
    found['ptrace'] = syscall(101, 16, pid, 0, 0)
    found['kcmp'] = syscall(312, pid, os.getpid(), 1, 0, 0)
    found['rt_sigqueueinfo'] = attempt(lambda: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGKILL))
    for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGUSR1):
        found[number.name] = attempt(lambda: os.kill(pid, number))
    found['prlimit'] = attempt(lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1)))
    found['setpriority'] = attempt(lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
    found['affinity'] = attempt(lambda: os.sched_setaffinity(pid, {0}))
    found['scheduler'] = attempt(lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)))
    found['ioprio'] = syscall(251, 1, pid, 3 << 13)
    return found

def search():
    # Says that it is done also where nobody was reached: whether somebody was, they tell.
    attempt(lambda: os.kill(-1, signal.SIGKILL))
    def connect(name):
        with socket.socket(socket.AF_UNIX) as peer: peer.connect(name)
    found = {pid: within(pid) for pid in range(1, 64) if pid != os.getpid()}
    found['here'] = {
        'abstract': attempt(lambda: connect('\\0secret')), 'named': attempt(lambda: connect('/tmp/socket')),
        'shmget': syscall(29, 4711, 4096, 0o1666), 'semget': syscall(64, 4711, 1, 0o1666), 'msgget': syscall(68, 4711, 0o1666),
        'mq_open': syscall(240, b'secret', 0o102, 0o666, None),
        'users': attempt(lambda: os.setpriority(os.PRIO_USER, 0, 19)), 'group': attempt(lambda: os.setpriority(os.PRIO_PGRP, 0, 19)),
    }
    return {'found': found, 'seen': [name for name in os.listdir('/proc') if name.isdigit()], 'self': os.getpid(),
            'files': [name for d in ('/tmp', '/var/tmp', '/dev/shm') for name in os.listdir(d)], 'env': os.environ.get('SECRET')}

def main(params):
    print('call', params.get('n'))
    if 'secret' in params: return hide(params['secret'])
    if 'die' in params: os.kill(params['die'], signal.SIGKILL)
    return search()
"""

NODE_PARTIES = """
const fs = require('fs'), net = require('net'), os = require('os');
const attempt = (action) => { try { action(); return 'allowed'; } catch (error) { return error.code || error.name; } };
async function hide(secret) {
  fs.writeFileSync('/tmp/secret', secret);
  process.env.SECRET = secret;
  const listener = net.createServer().listen('\\0secret');
  const before = os.getPriority();
  await new Promise((done) => setTimeout(done, 1500));
  listener.close();
  return { secret: fs.readFileSync('/tmp/secret', 'utf8'), unharmed: os.getPriority() === before };
}
async function search() {
  const found = {};
  for (let pid = 1; pid < 64; pid += 1) {
    if (pid === process.pid) continue;
    for (const name of ['mem', 'environ', 'maps', 'fd/3', 'cwd/x', 'root/tmp/secret']) found[`${pid} ${name}`] = attempt(() => fs.readFileSync(`/proc/${pid}/${name}`));
    for (const signal of ['SIGKILL', 'SIGSTOP', 'SIGTERM']) found[`${pid} ${signal}`] = attempt(() => process.kill(pid, signal));
    found[`${pid} priority`] = attempt(() => os.setPriority(pid, 19));
  }
  found.socket = await new Promise((done) => { net.connect('\\0secret', () => done('allowed')).on('error', (error) => done(error.code)); });
  attempt(() => process.kill(-1, 'SIGKILL'));
  return { allowed: Object.keys(found).filter((what) => found[what] === 'allowed'), files: fs.readdirSync('/tmp'), env: process.env.SECRET };
}
exports.main = ({ secret }) => (secret ? hide(secret) : search());
"""

# Leaves something of everything behind; says what it found.
REMAINS = {
    "py": """
import os, signal, subprocess, json, resource, socket, builtins
kept = []
def main(params):
    found = {'kept': list(kept), 'tmp': os.listdir('/tmp'), 'env': os.environ.get('LEFT'), 'cwd': os.getcwd(), 'fds': sorted(map(int, os.listdir('/proc/self/fd')))[:8],
             'mask': os.umask(0o77), 'nice': os.getpriority(os.PRIO_PROCESS, 0), 'files': resource.getrlimit(resource.RLIMIT_NOFILE)[0],
             'handler': str(signal.getsignal(signal.SIGUSR1)), 'others': [p for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()],
             'patched': hasattr(builtins, 'left')}
    kept.append(params['n'])
    open('/tmp/left', 'w').write('x')
    os.environ['LEFT'] = 'x'
    os.chdir('/tmp')
    found['opened'] = open('/tmp/left').fileno() and None
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    signal.signal(signal.SIGUSR1, lambda *_: None)
    builtins.left = json.loads
    json.loads = lambda *_: 'patched'
    child = subprocess.Popen(['/bin/sleep', '600'], start_new_session=True)
    kept.append(socket.socket())
    return found
""",
    "js": """
const fs = require('fs'), { spawn } = require('child_process');
const kept = [];
exports.main = ({ n }) => {
  const found = { kept: [...kept], tmp: fs.readdirSync('/tmp'), env: process.env.LEFT, cwd: process.cwd(), patched: JSON.parse('[1]').length,
    others: fs.readdirSync('/proc').filter((name) => /^\\d+$/.test(name) && Number(name) !== process.pid), listeners: process.listenerCount('SIGUSR2'), mask: process.umask(0o77) };
  kept.push(n);
  fs.writeFileSync('/tmp/left', 'x');
  fs.openSync('/tmp/left');
  process.env.LEFT = 'x';
  process.chdir('/tmp');
  JSON.parse = () => 'patched';
  Function.prototype.call = () => 'patched';
  process.on('SIGUSR2', () => {});
  spawn('/bin/sleep', ['600'], { detached: true, stdio: 'ignore' }).unref();
  setInterval(() => {}, 1000);
  return found;
};
""",
}


class Calls(UnderAttack):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        prepared = cls.deploy(cls(), "parties", "py", PARTIES, limits=PATIENT)
        assert prepared["snapshot"]["kept"], prepared

    def beside_a_secret(self, attack):
        """Runs attack() while another call holds a secret; checks that it was left alone. Gives the attack's answer."""
        outcome = {}
        victim = Thread(target=lambda: outcome.update(answer=self.call("parties", {"secret": "do-not-leak"})))
        victim.start()
        answers = [attack() for _ in range(3)]
        victim.join(300)
        status, response = outcome["answer"]
        self.assertEqual(status, 200, response)
        self.assertEqual(response["result"], {"secret": "do-not-leak", "env": "do-not-leak", "tmp": ["secret", "socket"], "unharmed": True})
        return answers

    def test_a_call_finds_and_reaches_nothing_of_another(self):
        for status, response in self.beside_a_secret(lambda: self.call("parties")):
            self.assertEqual(status, 200, response)
            result = response["result"]
            self.assertNotIn("do-not-leak", str(result))
            self.assertEqual((result["seen"], result["files"], result["env"]), ([str(result["self"])], [], None))
            for place, found in result["found"].items():
                allowed = [what for what, outcome in found.items() if outcome == "allowed" or outcome.startswith(("b'", "("))]
                self.assertEqual(allowed, [], f"process {place}")
        # Its zygote was not harmed either.
        self.test_calls_that_end_violently_end_alone()

    def test_a_nodejs_call_finds_and_reaches_nothing_of_another(self):
        self.assertTrue(self.deploy("node-parties", "js", NODE_PARTIES, limits=PATIENT)["snapshot"]["kept"])
        calls = [("node-parties", {"secret": "do-not-leak"})] + [("node-parties", {})] * 3
        (status, response), *attacks = self.at_once(calls)
        self.assertEqual((status, response["result"]), (200, {"secret": "do-not-leak", "unharmed": True}))
        for status, response in attacks:
            self.assertEqual((status, response["result"]), (200, {"allowed": [], "files": []}))

    def test_another_namespace_is_out_of_reach(self):
        made = self.server.cli("namespace", "create", "victims", "--data-dir", str(self.server.data_dir))
        key = made.stdout.decode().strip()
        request = {"kind": "python:default", "code": {"format": "source", "text": PARTIES}, "start": "fork", "reuse": "never"}
        self.assertEqual(self.server.request("PUT", "/v1/functions/parties", request, auth=key).status, 201, made)
        outcome = {}

        def hold():
            outcome["answer"] = self.server.request("POST", "/v1/functions/parties/invoke", {"secret": "of-another-namespace"}, auth=key)

        victim = Thread(target=hold)
        victim.start()
        answers = [self.call("parties") for _ in range(2)]
        victim.join(300)
        for status, response in answers:
            self.assertEqual(status, 200, response)
            self.assertNotIn("of-another-namespace", str(response))
            self.assertEqual(response["result"]["seen"], [str(response["result"]["self"])])
        held = outcome["answer"]
        self.assertEqual((held.status, held.json()["secret"], held.json()["unharmed"]), (200, "of-another-namespace", True), held)

    def test_calls_that_end_violently_end_alone(self):
        # 0: the process group, which clones and zygote share.
        for status, response in self.beside_a_secret(lambda: self.call("parties", {"die": 0})):
            self.assertEqual((status, response["status"]), (502, "action developer error"), response)
        status, response = self.call("parties", {"secret": "again"})
        self.assertEqual((status, response["result"]["unharmed"]), (200, True))

    def test_bombs_harm_no_sibling(self):
        code = """
import os, time
def main(params):
    if params['bomb'] == 'memory':
        hoard = []
        while True: hoard.append(bytearray(8 << 20))
    while params['bomb'] == 'fork':
        try: os.fork()
        except OSError: pass
    if params['bomb'] == 'threads':
        import threading
        while True:
            try: threading.Thread(target=time.sleep, args=(60,)).start()
            except RuntimeError: pass
    if params['bomb'] == 'files':
        for n in range(10 ** 7):
            try: open(f'/tmp/{n}', 'w').write('x' * (1 << 20))
            except OSError: return {'full': True}
    time.sleep(0.3)
    return {'n': params['n']}
"""
        self.deploy("bombs", "py", code, limits=A_WHILE)
        bombs = ["memory", "fork", "threads", "files", "memory"]
        answers = self.at_once([("bombs", {"bomb": bomb}) for bomb in bombs] + [("bombs", {"bomb": None, "n": n}) for n in range(8)])
        for n, (status, response) in enumerate(answers[len(bombs):]):
            self.assertEqual((status, response["result"]), (200, {"n": n}))
        for index in (0, 4):
            self.assertEqual(answers[index][1]["result"]["error"], "The action exhausted its memory and was aborted.")
        for index in (1, 2):
            self.assertEqual(answers[index][1]["status"], "action developer error")
        self.assertEqual(answers[3][1]["result"], {"full": True})

    def test_no_state_survives_a_call(self):
        for language, code in REMAINS.items():
            name = f"remains-{language}"
            self.assertTrue(self.deploy(name, language, code, limits=PATIENT)["snapshot"]["kept"])
            answers = [self.call(name, {"n": n}) for n in range(6)]
            self.assertEqual({status for status, _ in answers}, {200}, answers)
            results = [response["result"] for _, response in answers]
            first = results[0]
            self.assertEqual((first["kept"], first["tmp"], first["others"]), ([], [], []))
            for result in results[1:]:
                self.assertEqual(result, first)

    def test_two_hundred_calls_at_once_get_their_own_answers_and_logs(self):
        for language, code in {
            "py": "def main(params):\n    print('call', params['n'])\n    return {'n': params['n']}\n",
            "js": "exports.main = ({ n }) => { console.log('call', n); return { n }; };",
        }.items():
            self.deploy("many", language, code, limits=PATIENT)
            with ThreadPoolExecutor(200) as pool:
                answers = list(pool.map(lambda n: self.server.invoke("many", {"n": n}), range(200)))
                wrong = [(n, record) for n, (status, record) in enumerate(answers) if status != 200 or record["response"]["result"] != {"n": n}]
                self.assertEqual(wrong, [])
                records = list(pool.map(lambda answer: self.server.activation(answer[1]["activationId"]), answers))
            for n, record in enumerate(records):
                self.assertEqual([line.split(": ", 1)[1] for line in record["logs"]], [f"call {n}"])

    def test_forged_frames_of_a_clone_end_it_alone(self):
        code = """
import os, struct
def main(params):
    # The header's fields: length, kind, flags, reserved, call.
    body = b'\\0\\0\\0\\0' + b'{"forged":true}'
    for kind in (1, 3, 7, 11, 13, 5, 4, 250):
        for call in (0, 1, 2, 77):
            os.write(3, struct.pack('>IBBHI', len(body), kind, 1, 0, call) + body)
    return {}
"""
        self.deploy("forger", "py", code, limits=PATIENT)
        outcome = {}
        victim = Thread(target=lambda: outcome.update(answer=self.call("parties", {"secret": "mine"})))
        victim.start()
        for _ in range(3):
            status, response = self.call("forger")
            self.assertEqual((status, response["status"]), (502, "action developer error"), response)
        victim.join(300)
        self.assertEqual(outcome["answer"][1]["result"]["secret"], "mine")

    def test_daemons_end_with_their_call(self):
        code = """
import ctypes, os, time
def main(params):
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                ctypes.CDLL(None).prctl(15, b'flint-daemon', 0, 0, 0)
                time.sleep(600)
            os._exit(0)
    time.sleep(0.2)
    return {}
"""
        self.deploy("daemons", "py", code, limits=PATIENT)
        for _ in range(3):
            self.assertEqual(self.call("daemons")[0], 200)
        wait_for(lambda: not processes_called("flint-daemon"), 120, "the end of every daemon")


def processes_called(name):
    found = []
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            if comm.read_text().strip() == name:
                found.append(comm.parent.name)
        except OSError:
            pass
    return found


if __name__ == "__main__":
    unittest.main()
