"""The function's stdout and stderr. The output of a call must be in the pipes before its answer is sent."""

import functools
import os
import sys

_SHIM, _LIBRARY = (file.rsplit("/", 1)[0] + "/" for file in (__file__, os.__file__))


def prepare():
    """Line buffering: a complete line is in its pipe at once, and survives the process being killed."""
    sys.stdout.reconfigure(line_buffering=True)


_flush_native = None


def flush():
    if _flush_native is not None or "ctypes" in sys.modules:
        _print_native()
    streams = [sys.stdout, sys.stderr]
    if sys.stdout is not sys.__stdout__ or sys.stderr is not sys.__stderr__:
        streams += [sys.__stdout__, sys.__stderr__]
    for stream in streams:
        try:
            stream.flush()
        except Exception:
            pass  # user code closed or replaced it


def _print_native():
    """Has the C library print what extension modules have given to its `stdout`. Only where `ctypes` is loaded, as numpy does and every
    zygote: to import it takes longer than the shim does."""
    global _flush_native
    if _flush_native is None:
        try:
            import ctypes

            library = ctypes.CDLL(None)
            _flush_native = functools.partial(library.fflush, ctypes.c_void_p.in_dll(library, "stdout"))
        except Exception:  # another C library, or a module of this name that is not Python's
            _flush_native = bool
    _flush_native()


def print_line(text):
    try:
        sys.__stderr__.write(text + "\n")
    except Exception:
        pass


def print_error(error):
    """Prints an exception with its traceback, without the shim's frames."""
    import traceback  # not needed by a call that succeeds

    try:
        text = "".join(traceback.format_exception(type(error), error, _of_user(error.__traceback__))).rstrip()
    except Exception as unprintable:  # it depends on what the exception says of itself
        text = f"{type(error).__name__} (and it cannot be printed: {type(unprintable).__name__})"
    print_line(text)


def _of_user(frames):
    """The frames after the shim's, including where frames of the standard library, such as an event loop's, lie between them."""
    found = frames
    while frames is not None:
        file = frames.tb_frame.f_code.co_filename
        frames = frames.tb_next
        if file.startswith((_SHIM, "<frozen importlib")):
            found = frames
        elif not file.startswith(_LIBRARY):
            break
    return found
