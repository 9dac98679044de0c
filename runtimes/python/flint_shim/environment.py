"""The environment variables of the OpenWhisk contract."""

import json
import os

_PER_CALL = (
    ("activation", "__OW_ACTIVATION_ID"),
    ("deadline", "__OW_DEADLINE"),
    ("transaction", "__OW_TRANSACTION_ID"),
    ("apiKey", "__OW_API_KEY"),
    ("apiHost", "__OW_API_HOST"),
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
    """Sets the variables that differ from call to call; only changes are written."""

    def __init__(self):
        self._current = {}

    def apply(self, head):
        for field, variable in _PER_CALL:
            value = head.get(field)
            if value == self._current.get(field):
                continue
            self._current[field] = value
            if value is None:
                os.environ.pop(variable, None)
            else:
                os.environ[variable] = str(value)
