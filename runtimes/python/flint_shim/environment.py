"""Sets the environment variables of the OpenWhisk contract."""

import functools
import json
import os
import time

import _posixsubprocess

# Constant within a namespace, so they rarely change: written to the process's environment only when they do.
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
"""Set to 1 in a zygote unless the function sets them: a clone has one thread."""


def set_all(variables):
    for name, value in (variables or {}).items():
        os.environ[name] = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    if variables and "TZ" in variables:
        time.tzset()  # the C library has read it when the interpreter began


def set_initial(init):
    """Sets the variables of INIT, before user code is loaded."""
    set_all(init.get("env"))
    if "namespace" in init:
        os.environ["__OW_NAMESPACE"] = init["namespace"]
    if "name" in init:
        os.environ["__OW_ACTION_NAME"] = f"/{init.get('namespace', '_')}/{init['name']}"
    if "version" in init:
        os.environ["__OW_ACTION_VERSION"] = init["version"]


class CallEnvironment:
    """The environment variables of the current call.

    Those that differ with every call are kept in `os.environ` only, and passed to the C library just before a process is started:
    before 2.41, glibc's setenv never frees a value (some 300 bytes a call) and searches all of them on the next call.
    """

    def __init__(self):
        self._is_written = True
        self._data = os.environ._data
        self._seldom = [(field, variable, os.environ.encodekey(variable)) for field, variable in _SELDOM]
        self._names = [(field, os.environ.encodekey(variable)) for field, variable in _OF_A_CALL]
        self._initial = {}
        _before_processes(self._write)

    def settle(self):
        """Records the values set by INIT or RESTORE as the defaults for calls that bring none of their own."""
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
        """Writes the current call's variables to the C library's environment, which new processes inherit."""
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
