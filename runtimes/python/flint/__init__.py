"""What a function may import from its runtime: `from flint import Response`."""

from .context import Context
from .response import Response

__all__ = ["Context", "Response"]
