"""Objects that stay as long as the process are made immortal: a clone that uses them does not write their reference counts, and so does not copy their pages.

CPython 3.12 and 3.13 (3.14 is not tested) count no references to objects with a certain count, that of `None`. Only what would not be freed anyway gets it, and what nobody would
notice if it were not freed: the code and the constants of functions, functions and classes, what belongs to classes, modules. No object of user code's
classes, no container that could hold one: those are finalised and give their memory back in a clone as everywhere.
"""

import ctypes
import gc
import sys
import sysconfig
import types
from _weakref import getweakrefcount

_CONSTANTS = frozenset((str, bytes, int, float, complex, bool, type(None), type(Ellipsis)))
_CODE = types.CodeType
# What these hold is looked at: a function may be all that holds the file which it closes over.
_HOLDERS = frozenset((types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.ClassMethodDescriptorType, types.WrapperDescriptorType,
                      types.GetSetDescriptorType, types.MemberDescriptorType, staticmethod, classmethod, property, tuple, frozenset))
# Only as part of another: they may as well be the data of user code, of which much may be let go.
_PARTS = frozenset((tuple, frozenset))
_DEPTH = 32


def is_possible():
    """Whether this interpreter has immortal objects as they are known here, in the lower half of a count of 64 bits."""
    return ((3, 12) <= sys.version_info < (3, 14) and sys.byteorder == "little" and ctypes.sizeof(ctypes.c_ssize_t) == 8 and sys.implementation.name == "cpython"
            and not hasattr(sys, "gettotalrefcount") and not sysconfig.get_config_var("Py_GIL_DISABLED")
            and _count(None) == _count(True) == _count(()) >= 1 << 31)


def immortalise():
    """Makes immortal what is listed above. Before `gc.freeze`, which hides objects. Runs no user code."""
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
        """Whether it is one of those."""
        known = self._known.get(id(thing))
        if known is None:
            self._known[id(thing)] = False  # while what it holds is looked at
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
            return True  # its own base: only a collection would free it, and this one is frozen
        if kind not in _HOLDERS or depth == _DEPTH or getweakrefcount(thing):
            return False
        return all([self.add(held, depth + 1) for held in gc.get_referents(thing)])
