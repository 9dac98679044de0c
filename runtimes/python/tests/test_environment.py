"""The variables of a call: where they are seen, and that nothing is left of them."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

SHIM = Path(__file__).parent.parent

SETUP = """
import os, sys
from flint_shim.environment import CallEnvironment
environment = CallEnvironment()
def call(n):
    environment.apply({"activation": f"{n:032}", "deadline": n, "transaction": f"t{n}"})
"""

WAYS = {
    "subprocess": "import subprocess; print(subprocess.run(['env'], stdout=subprocess.PIPE, text=True).stdout)",
    "popen": "print(os.popen('env').read())",
    "system": "os.system('env')",
    "fork and execv": "pid = os.fork(); pid or os.execv('/usr/bin/env', ['env']); os.waitpid(pid, 0)",
    "execv": "os.execv('/usr/bin/env', ['env'])",
    "execvp": "os.execvp('env', ['env'])",
    "posix_spawn": "os.waitpid(os.posix_spawn('/usr/bin/env', ['env'], os.environ), 0)",
    "spawnlp": "os.spawnlp(os.P_WAIT, 'env', 'env')",
    "asyncio": "import asyncio\nasync def run():\n    await (await asyncio.create_subprocess_exec('env')).wait()\nasyncio.run(run())",
}


def run(code):
    done = subprocess.run([sys.executable, "-c", SETUP + code], cwd=SHIM, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")})
    assert done.returncode == 0, done.stderr
    return done.stdout


class EnvironmentTest(unittest.TestCase):
    def test_every_way_to_start_a_process_passes_it_on(self):
        for way, code in WAYS.items():
            with self.subTest(way):
                lines = run(f"call(1); call(2); sys.stdout.flush()\n{code}").split("\n")
                self.assertEqual(sorted(line for line in lines if line.startswith("__OW_")),
                                 ["__OW_ACTIVATION_ID=" + "2".zfill(32), "__OW_DEADLINE=2", "__OW_TRANSACTION_ID=t2"])

    def test_what_a_call_has_not_is_gone_from_the_next_process_too(self):
        code = "call(1); os.system('true'); environment.apply({'activation': 'a'}); os.system('env')"
        lines = [line for line in run(code).split("\n") if line.startswith("__OW_")]
        self.assertEqual(lines, ["__OW_ACTIVATION_ID=a"])

    def test_user_code_may_change_it_for_the_rest_of_its_call(self):
        code = "call(1); os.environ['__OW_DEADLINE'] = 'x'; del os.environ['__OW_TRANSACTION_ID']; os.system('env'); call(2); os.system('env')"
        lines = [line for line in run(code).split("\n") if line.startswith(("__OW_DEADLINE", "__OW_TRANS"))]
        self.assertEqual(sorted(lines), ["__OW_DEADLINE=2", "__OW_DEADLINE=x", "__OW_TRANSACTION_ID=t2"])

    def test_also_what_is_the_same_in_every_call(self):
        code = "head = {'apiKey': 'u:k'}; environment.apply(head); del os.environ['__OW_API_KEY']; environment.apply(head); os.system('env')\n"
        code += "environment.apply({}); os.environ['__OW_API_KEY'] = 'mine'; environment.apply({}); os.system('env')"
        self.assertEqual([line for line in run(code).split("\n") if line.startswith("__OW_")], ["__OW_API_KEY=u:k"])

    def test_the_time_zone_is_that_of_the_functions_environment(self):
        code = "from flint_shim.environment import set_initial\nimport time\nset_initial({'env': {'TZ': 'XYZ-5'}})\nprint(time.strftime('%Z %z'))"
        self.assertEqual(run(code), "XYZ +0500\n")

    def test_paths_below_tmp_that_may_be_missing(self):
        """The file system of this folder stands for that of /tmp, of which the kernel knows no path."""
        code = """
import os.path, tempfile
from flint_shim.snapshot import tmp
folder = tempfile.mkdtemp(dir=os.path.expanduser("~"))
os.dup2(os.open(folder, os.O_RDONLY), tmp.TMP)
os.path.ALLOW_MISSING = getattr(os.path, "ALLOW_MISSING", object())
print([tmp.realpath(folder + "/none/file", strict=strict) == "/tmp" + folder + "/none/file" for strict in (False, os.path.ALLOW_MISSING)])
try:
    tmp.realpath(folder + "/none", strict=True)
except (FileNotFoundError, TypeError):  # 3.9 has no such argument
    print("missing")
os.rmdir(folder)
"""
        self.assertEqual(run(code), "[True, True]\nmissing\n")

    def test_a_call_leaves_nothing_in_memory(self):
        code = """
def resident():
    with open("/proc/self/statm") as text:
        return int(text.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
for n in range(100_000):
    call(n)
before = resident()
for n in range(100_000, 300_000):
    call(n)
print(resident() - before)
"""
        self.assertLess(int(run(code)), 20e6)  # the C library would keep 60 MB


if __name__ == "__main__":
    unittest.main()
