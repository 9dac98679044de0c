"""The snapshot hooks under the names of AWS Lambda SnapStart, for functions written for it."""

from flint_shim.hooks import after_restore as register_after_restore
from flint_shim.hooks import before_snapshot as register_before_snapshot

__all__ = ["register_after_restore", "register_before_snapshot"]
