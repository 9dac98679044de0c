"""The names that a function may import from its runtime: `from flint import Response`."""

from flint_shim.context import Context
from flint_shim.hooks import after_restore, before_snapshot
from flint_shim.response import Response

beforeSnapshot = before_snapshot
afterRestore = after_restore

__all__ = ["Context", "Response", "after_restore", "afterRestore", "before_snapshot", "beforeSnapshot"]
