"""The environment variables of the OpenWhisk contract."""

import functools
import json
import os

import _posixsubprocess

# Of one namespace, so they hardly ever change: written to the process's environment when they do.
_SELDOM = (
    ("apiKey", "__OW_API_KEY"),
    ("apiHost", "__OW_API_HOST"),
)
_OF_A_CALL = (
    ("activation", "__OW_ACTIVATION_ID"),
    ("deadline", "__OW_DEADLINE"),
    ("transaction", "__OW_TRANSACTION_ID"),
)


ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Set to 1 in a process that is to be copied, unless the function sets them: a copy has one thread."""


def set_all(variables):
    for name, value in (variables or {}).items():
        os.environ[name] = value if isinstance(value, str) else "" if value is None else json.dumps(value)


def set_initial(init):
    """Sets what INIT brings, before user code is loaded."""
    set_all(init.get("env"))
    if "namespace" in init:
        os.environ["__OW_NAMESPACE"] = init["namespace"]
    if "name" in init:
        os.environ["__OW_ACTION_NAME"] = f"/{init.get('namespace', '_')}/{init['name']}"
    if "version" in init:
        os.environ["__OW_ACTION_VERSION"] = init["version"]


class CallEnvironment:
    """The variables of the current call.

    Those that differ from call to call stay in `os.environ`, and reach the C library only when a process is started: it keeps every value
    that it was ever given (glibc before 2.41), some 300 bytes a call, and looks through all of them at the next.
    """

    def __init__(self):
        self._is_written = True
        self._data = os.environ._data
        self._seldom = [(field, variable, os.environ.encodekey(variable)) for field, variable in _SELDOM]
        self._names = [(field, os.environ.encodekey(variable)) for field, variable in _OF_A_CALL]
        self._initial = {}
        _before_processes(self._write)

    def settle(self):
        """What INIT or RESTORE has set is there in every call that brings none of its own."""
        self._initial = {name: self._data.get(name) for _, _, name in self._seldom}

    def apply(self, head):
        for field, name in self._names:
            value = head.get(field)
            if value is None:
                self._data.pop(name, None)
            else:
                self._data[name] = str(value).encode()
        self._is_written = False
        for field, variable, name in self._seldom:
            value = head.get(field)
            value = self._initial.get(name) if value is None else str(value).encode()
            if value == self._data.get(name):
                continue
            if value is None:
                os.environ.pop(variable, None)
            else:
                os.environ[variable] = os.environ.decodevalue(value)

    def _write(self):
        """Brings the C library's environment, which new processes get, to the current call's."""
        if self._is_written:
            return
        self._is_written = True
        for _, name in self._names:
            value = self._data.get(name)
            if value is None:
                os.unsetenv(name)
            else:
                os.putenv(name, value)


def _before_processes(action):
    """Has `action` done before a process is started that gets the C library's environment."""
    os.register_at_fork(before=action)
    starters = ((_posixsubprocess, "fork_exec"), (os, "posix_spawn"), (os, "posix_spawnp"), (os, "system"), (os, "execv"))
    for module, name in starters:
        setattr(module, name, _after(action, getattr(module, name)))


def _after(action, function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        action()
        return function(*args, **kwargs)

    return wrapper
