import sys
import unittest

from support import ShimTestCase

ECHO = "def main(params):\n    return {'ok': 1}\n"


class Entries(ShimTestCase):
    def check(self, source, main="main", name="function.py"):
        peer = self.started(source, main, name)
        self.assertEqual(peer.invoke({"x": 3}).json(), {"got": 3})
        self.assertEqual(peer.stderr, "")

    def test_main(self):
        self.check("def main(params): return {'got': params['x']}")

    def test_handler(self):
        self.check("def handler(event, context): return {'got': context.activation_id and event['x']}")

    def test_main_with_context(self):
        self.check("def main(params, context): return {'got': context.activation_id and params['x']}")

    def test_main_with_an_optional_argument_of_its_own(self):
        self.check("def main(params, factor=1): return {'got': params['x'] * factor}")

    def test_main_without_parameters(self):
        self.check("def main(): return {'got': 3}")

    def test_another_name(self):
        self.check("def twice(params): return {'got': params['x']}", "twice")

    def test_a_method(self):
        self.check("class Math:\n    def twice(self, params): return {'got': params['x']}\nmath = Math()", "math.twice")

    def test_a_callable_object(self):
        self.check("class Main:\n    def __call__(self, params, context): return {'got': context.activation_id and params['x']}\nmain = Main()")

    def test_a_decorated_function(self):
        self.check("import functools\ndef plain(f):\n    @functools.wraps(f)\n    def wrapper(*args, **kwargs): return f(*args, **kwargs)\n    return wrapper\n"
                   "@plain\ndef main(params, context): return {'got': context.activation_id and params['x']}")

    def test_decorators_are_called_as_they_are_written(self):
        one = "import functools\ndef plain(function):\n    @functools.wraps(function)\n    def wrapper(event):\n        return function(event, None)\n    return wrapper\n"
        rest = "import functools\ndef rest(function):\n    @functools.wraps(function)\n    def wrapper(*arguments, **named):\n        return function(*arguments, **named)\n    return wrapper\n"
        both = "def main(event, context): return {'got': context.activation_id and event['x']}"
        for source in (
            one + "@plain\ndef main(event, context): return {'got': event['x']}",
            rest + one + "@rest\n@plain\ndef main(event, context): return {'got': event['x']}",
            "import functools\ndef two(function):\n    @functools.wraps(function)\n    def wrapper(event, context):\n        return function(event)\n    return wrapper\n"
            "@two\ndef main(event): return {'got': event['x']}",
            rest + "@rest\n" + both,
            rest + "class Main:\n    @rest\n    def run(self, event, context): return {'got': context.activation_id and event['x']}\nmain = Main().run",
            "import functools\nclass Cached:\n    def __init__(self, function): functools.update_wrapper(self, function)\n"
            "    def __call__(self, *arguments): return self.__wrapped__(*arguments)\n@Cached\n" + both,
        ):
            with self.subTest(source):
                self.check(source)

    def test_a_decorator_without_wraps(self):
        self.check("def plain(f):\n    def wrapper(*args): return f(*args)\n    return wrapper\n@plain\ndef main(params): return {'got': params['x']}")

    def test_async(self):
        self.check("import asyncio\nasync def main(params):\n    await asyncio.sleep(0)\n    return {'got': params['x']}")

    def test_a_file_that_is_called_as_a_standard_module(self):
        self.check("import json as standard\ndef main(params): return standard.loads(standard.dumps({'got': params['x']}))", name="json.py")

    def test_a_file_without_suffix(self):
        self.check("def main(params): return {'got': params['x']}", name="code")

    def test_the_main_guard_stays_closed(self):
        self.check("def main(params): return {'got': params['x']}\nif __name__ == '__main__': raise SystemExit(1)", name="__main__.py")

    def test_dataclasses_and_pickle_find_the_module(self):
        self.check("import dataclasses, pickle\n@dataclasses.dataclass\nclass Point:\n    x: 'int'\n"
                   "def main(params): return {'got': pickle.loads(pickle.dumps(Point(params['x']))).x}")


class Directories(ShimTestCase):
    def check(self, files, main="main"):
        peer = self.shim()
        peer.start(self.directory(files), main)
        self.assertEqual(peer.invoke().json(), {"ok": 1})

    def test_entry_files(self):
        for name in ("__main__.py", "main.py", "index.py"):
            with self.subTest(name):
                self.check({name: ECHO})

    def test_modules_beside_the_code_come_first(self):
        self.check({"main.py": "from colorsys import ok\nfrom frame import also\ndef main(params): return {'ok': ok * also}",
                    "colorsys.py": "ok = 1", "frame.py": "also = 1"})

    def test_file_function(self):
        self.check({"lib/__init__.py": "", "lib/math.py": ECHO.replace("main", "twice")}, "lib.math.twice")

    def test_files_beside_the_code(self):
        self.check({"main.py": "import json\ndef main(params): return json.load(open('data.json'))", "data.json": '{"ok": 1}'})

    def test_virtual_environments(self):
        packages = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
        for name in ("virtualenv", ".venv", "venv"):
            with self.subTest(name):
                self.check({"main.py": "import dep, deep, colorsys\ndef main(params): return {'ok': dep.one * deep.one * colorsys.one}",
                            f"{name}/{packages}/dep.py": "one = 1", f"{name}/{packages}/colorsys.py": "one = 1",
                            f"{name}/{packages}/more.pth": "below\n", f"{name}/{packages}/below/deep.py": "one = 1"})

    def test_a_virtual_environment_of_another_version(self):
        self.check({"main.py": "import dep\ndef main(params): return {'ok': dep.one}", "venv/lib/python3.0/site-packages/dep.py": "one = 1"})


class Failures(ShimTestCase):
    def test_no_code(self):
        self.assertIn("Missing main/no code to execute.", self.load_error(""))

    def test_no_entry_file(self):
        self.assertIn("__main__.py, main.py, index.py", self.load_error(self.directory({"readme.txt": ""})))

    def test_no_entry(self):
        self.assertIn("entrypoint 'main' is not a function", self.load_error(self.directory({"main.py": "main = 5"})))

    def test_syntax_error(self):
        code = self.directory({"main.py": "x = 1\ndef main(:\n"})
        self.assertRegex(self.load_error(code), rf"SyntaxError: .* \({code}/main\.py:2\)")

    def test_import_error_deeper_down(self):
        code = self.directory({"main.py": "\nimport other\n", "other.py": "\n\nimport absent_module\n"})
        self.assertRegex(self.load_error(code), rf"ModuleNotFoundError: .*absent_module.* \({code}/other\.py:3\)")

    def test_exit(self):
        self.assertIn("SystemExit: 3", self.load_error(self.directory({"main.py": "import sys\nsys.exit(3)"})))


if __name__ == "__main__":
    unittest.main()
