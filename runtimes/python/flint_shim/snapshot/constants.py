"""Finds the globals that a function reads and whether they are ever reassigned: numba compiles the current value of a global in."""

import dis
import types

_CONSTANTS = (int, float, complex, bool, str, bytes, type(None), types.ModuleType)
_ASSIGNMENTS = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR")


class Constants:
    """The globals of the user's modules."""

    def __init__(self, modules):
        self._modules = {id(vars(module)): module for module in modules}
        self._assigned = {}

    def doubt(self, function):
        """Why a global that the function reads may change later, or None."""
        names = function.__code__.co_names
        places = [(function.__globals__, name) for name in names if name in function.__globals__]
        for _, name in list(places):
            value = function.__globals__[name]
            if type(value) is types.ModuleType and id(vars(value)) in self._modules:
                places += [(vars(value), attribute) for attribute in names if attribute in vars(value)]
        for namespace, name in places:
            if not _is_constant(namespace[name]):
                return f"it reads the global '{name}', whose content may change"
            if any(name in self._assigned_names(module) for module in self._modules.values()):
                return f"it reads the global '{name}', to which a function assigns"
        return None

    def _assigned_names(self, module):
        """The names that functions of the module assign to, as globals or attributes."""
        if module not in self._assigned:
            code = module.__spec__.loader.get_code(module.__spec__.name)
            pending = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
            found = self._assigned[module] = set()
            while pending:
                code = pending.pop()
                found.update(step.argval for step in dis.get_instructions(code) if step.opname in _ASSIGNMENTS)
                pending += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        return self._assigned[module]


def _is_constant(value):
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    return isinstance(value, _CONSTANTS) or callable(value)
