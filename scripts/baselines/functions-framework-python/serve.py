"""Serves a function that takes params by the framework. FUNCTION_FILE is the function."""

import importlib.util
import os

spec = importlib.util.spec_from_file_location("function", os.environ["FUNCTION_FILE"])
function = importlib.util.module_from_spec(spec)
spec.loader.exec_module(function)


def serve(request):
    return function.main(request.get_json())
