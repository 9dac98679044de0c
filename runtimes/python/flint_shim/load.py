"""Finds and imports the user's code."""

import importlib
import importlib.util
import os
import sys

_ENTRY_FILES = ("__main__.py", "main.py", "index.py")
_VIRTUAL_ENVIRONMENTS = ("virtualenv", ".venv", "venv")


class LoadError(Exception):
    """The code is missing or has no entry; the message is for the developer."""


def load(code, main):
    """Imports the function and returns its entry, a callable."""
    if not code:
        raise LoadError("Missing main/no code to execute.")
    if not os.path.exists(code):
        raise LoadError(f"The code {code} does not exist.")
    is_directory = os.path.isdir(code)
    directory = code if is_directory else os.path.dirname(code)
    os.chdir(directory)
    sys.path.insert(0, directory)
    _add_virtual_environment(directory)
    if is_directory and "." in main:
        name, main = main.rsplit(".", 1)
        module = importlib.import_module(name)
    else:
        module = _import_file(_entry_file(code) if is_directory else code)
    return find_entry(module, main)


def _entry_file(directory):
    for name in _ENTRY_FILES:
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            return path
    raise LoadError(f"A function in a directory needs one of {', '.join(_ENTRY_FILES)}.")


def _import_file(path):
    """Imports a file under any name: a file called `json.py` does not shadow the standard library's module."""
    name = os.path.splitext(os.path.basename(path))[0]
    if name == "__main__" or not name.isidentifier() or name in sys.modules:
        name = "main__"  # OpenWhisk's name for it; `if __name__ == "__main__"` stays false
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        from importlib.machinery import SourceFileLoader  # the file has no .py suffix
        spec = importlib.util.spec_from_file_location(name, path, loader=SourceFileLoader(name, path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _add_virtual_environment(directory):
    """Puts the packages of a virtual environment beside the code on sys.path, after the code and before the interpreter's own."""
    for name in _VIRTUAL_ENVIRONMENTS:
        lib = os.path.join(directory, name, "lib")
        if not os.path.isdir(lib):
            continue
        own = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        versions = sorted(entry for entry in os.listdir(lib) if entry.startswith("python3"))
        for version in [own] if own in versions else versions:
            packages = os.path.join(lib, version, "site-packages")
            if os.path.isdir(packages):
                import site

                before = list(sys.path)
                site.addsitedir(packages)  # handles .pth files
                added = [path for path in sys.path if path not in before]
                sys.path[:] = before[:1] + added + before[1:]
        return


def find_entry(module, main):
    value = module
    for part in main.split("."):
        value = getattr(value, part, None)
    if value is None and main == "main":
        value = getattr(module, "handler", None)
    if not callable(value):
        raise LoadError(f"Action entrypoint '{main}' is not a function of {getattr(module, '__file__', module)}.")
    return value


def text_of(error):
    """The text of an exception; its own `__str__` may fail."""
    try:
        return str(error)
    except Exception:
        return "<exception str() failed>"


def describe_failure(error):
    """The error's type and text with the file and line in user code that raised it."""
    text = f"{type(error).__name__}: {text_of(error)}"
    if isinstance(error, LoadError):
        return str(error)
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} ({error.filename}:{error.lineno})"
    place = None
    frames = error.__traceback__
    while frames is not None:
        name = frames.tb_frame.f_code.co_filename
        if not name.startswith((os.path.dirname(__file__), "<frozen")):
            place = f"{name}:{frames.tb_lineno}"
        frames = frames.tb_next
    return f"{text} ({place})" if place else text
