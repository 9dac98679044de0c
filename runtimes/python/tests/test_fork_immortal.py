import sys
import time
import unittest

from forking import ForkTestCase

SOURCE = """
    import ctypes, weakref

    class Resource:
        def __del__(self): print("closed")
        def method(self): return 1

    def closing(resource=Resource()): pass

    def make():
        resource = Resource()
        return lambda: resource

    closure = make()
    def plain(): return 1
    watched = lambda: 1
    ends = []
    reference = weakref.ref(watched, ends.append)
    instance, many = Resource(), [(number, str(number) * 3) for number in range(1000)]
    def count(thing): return ctypes.c_uint32.from_address(id(thing)).value

    def main(params):
        global closing, closure, watched, instance
        forever = count(None)
        found = {name: count(thing) == forever for name, thing in {
            "function": plain, "code": plain.__code__, "class": Resource, "method": Resource.method, "module": ctypes,
            "closure": closure, "default": closing, "watched": watched, "instance": instance, "container": many, "content": many[500],
            "text": many[500][1]}.items()}
        if params.get("drop"):
            closing = closure = watched = instance = None
            found["ends"] = len(ends)
        return found
"""
STAYS = {"function", "code", "class", "method", "module"}

READS = ("19", "65")  # readv, on x86-64 and on ARM
COUNTED_LESS = unittest.skipUnless((3, 12) <= sys.version_info < (3, 14) and sys._is_gil_enabled() if hasattr(sys, "_is_gil_enabled") else sys.version_info >= (3, 12),
                                   "this Python counts references to all objects")


class Immortal(ForkTestCase):
    @COUNTED_LESS
    def test_what_stays_as_long_as_the_process_is_not_counted_and_all_else_is(self):
        found = self.clone(self.frozen(SOURCE)).invoke().json()
        self.assertEqual({name for name, immortal in found.items() if immortal}, STAYS)

    def test_what_user_code_lets_go_is_finalised_in_a_clone(self):
        clone = self.clone(self.frozen(SOURCE))
        self.assertEqual(clone.invoke({"drop": True}).json()["ends"], 1)
        clone.close()
        self.assertEqual(clone.stdout.count("closed"), 3)  # of an instance, a function's default and its closure

    @COUNTED_LESS
    def test_what_a_restore_needs_is_there_before_it_comes(self):
        clone = self.clone(self.frozen("def main(params): return {}"), flags=1, restore=False)
        deadline = time.monotonic() + 60
        while waits_in(clone.pid) not in READS:  # primed, for RESTORE
            self.assertLess(time.monotonic(), deadline)
        before = private_memory(clone.pid)
        clone.restore()
        self.assertLess(private_memory(clone.pid) - before, 100 << 10)


def waits_in(pid):
    with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
        return file.read().split()[0]


def private_memory(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) << 10 for line in file if line.startswith("Private_") and not line.startswith("Private_Hugetlb"))


if __name__ == "__main__":
    unittest.main()
