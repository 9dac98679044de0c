"""Makes objects that live as long as the process immortal: a clone that uses them does not write their reference counts, and so does not
copy their pages.

CPython 3.12 and 3.13 (3.14 is untested) do not count references to objects with one reserved count, that of `None`. Only objects that
would not be freed anyway, or whose freeing nobody would notice, get it: code objects and their constants, functions, classes and
their attributes, modules. Instances of user code's classes, and containers that could hold one, do not: a clone must finalise and
free them as usual.
"""

import ctypes
import gc
import sys
import sysconfig
import types
from _weakref import getweakrefcount

_CONSTANTS = frozenset((str, bytes, int, float, complex, bool, type(None), type(Ellipsis)))
_CODE = types.CodeType
# Safe only if what they reference is: a function may hold the only reference to the file in its closure.
_HOLDERS = frozenset((types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.ClassMethodDescriptorType, types.WrapperDescriptorType,
                      types.GetSetDescriptorType, types.MemberDescriptorType, staticmethod, classmethod, property, tuple, frozenset))
# Made immortal only as part of another object: on their own they may be user data that is freed later, in large amounts.
_PARTS = frozenset((tuple, frozenset))
_DEPTH = 32


def is_possible():
    """Whether this interpreter has immortal objects in the known form, in the lower half of a 64-bit count."""
    return ((3, 12) <= sys.version_info < (3, 14) and sys.byteorder == "little" and ctypes.sizeof(ctypes.c_ssize_t) == 8 and sys.implementation.name == "cpython"
            and not hasattr(sys, "gettotalrefcount") and not sysconfig.get_config_var("Py_GIL_DISABLED")
            and _count(None) == _count(True) == _count(()) >= 1 << 31)


def immortalise():
    """Makes the objects described above immortal. Must precede `gc.freeze`, which hides objects from `gc.get_objects`. Runs no user
    code."""
    if not is_possible():
        return
    found = _Found()
    for thing in gc.get_objects():
        if type(thing) not in _PARTS:
            found.add(thing)
    count = _count(None)
    for thing in found.chosen:
        ctypes.c_uint32.from_address(id(thing)).value = count


def _count(thing):
    return ctypes.c_uint32.from_address(id(thing)).value


class _Found:
    def __init__(self):
        modules = [module for module in list(sys.modules.values()) if type(module) is types.ModuleType]
        self.chosen = modules + [types.ModuleType.__dict__["__dict__"].__get__(module) for module in modules]
        self._known = {id(thing): True for thing in self.chosen}

    def add(self, thing, depth=0):
        """Whether the object may be made immortal."""
        known = self._known.get(id(thing))
        if known is None:
            self._known[id(thing)] = False  # ends cycles while its references are followed
            known = self._known[id(thing)] = self._is_safe(thing, type(thing), depth)
            if known:
                self.chosen.append(thing)
        return known

    def _is_safe(self, thing, kind, depth):
        if kind in _CONSTANTS:
            return True
        if kind is _CODE:
            for held in (thing.co_consts, thing.co_names, thing.co_filename, thing.co_name, thing.co_qualname):
                self.add(held, depth + 1)
            return True
        if issubclass(kind, type):
            return True  # a class references itself: only a collection would free it, and `gc.freeze` prevents that
        if kind not in _HOLDERS or depth == _DEPTH or getweakrefcount(thing):
            return False
        return all([self.add(held, depth + 1) for held in gc.get_referents(thing)])
