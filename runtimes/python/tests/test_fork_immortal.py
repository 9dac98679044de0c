import sys
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


class Immortal(ForkTestCase):
    @unittest.skipUnless((3, 12) <= sys.version_info < (3, 14) and sys._is_gil_enabled() if hasattr(sys, "_is_gil_enabled") else sys.version_info >= (3, 12),
                         "this Python counts references to all objects")
    def test_what_stays_as_long_as_the_process_is_not_counted_and_all_else_is(self):
        found = self.clone(self.frozen(SOURCE)).invoke().json()
        self.assertEqual({name for name, immortal in found.items() if immortal}, STAYS)

    def test_what_user_code_lets_go_is_finalised_in_a_clone(self):
        clone = self.clone(self.frozen(SOURCE))
        self.assertEqual(clone.invoke({"drop": True}).json()["ends"], 1)
        clone.close()
        self.assertEqual(clone.stdout.count("closed"), 3)  # of an instance, a function's default and its closure


if __name__ == "__main__":
    unittest.main()
