"""The exit statuses of a shim, and what it runs before it exits."""

EXIT_FAILED = 1
EXIT_PROTOCOL = 3
EXIT_CLONE = 70
"""A clone could not be set up."""


def run_exit_handlers():
    """Runs what user code registered with `atexit`; errors are printed, as at a normal exit."""
    import atexit

    atexit._run_exitfuncs()
