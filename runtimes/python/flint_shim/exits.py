"""How a shim ends."""

EXIT_FAILED = 1
EXIT_PROTOCOL = 3
EXIT_CLONE = 70
"""A clone could not be made what it has to be."""


def run_exit_handlers():
    """What user code has registered with `atexit`; errors are printed, as at an ordinary end."""
    import atexit

    atexit._run_exitfuncs()
