"""`--jit numba`. With the real numba under Python 3.11; what needs none of it, under all."""

import os
import shutil
import sys
import unittest

from forking import ForkTestCase
from packages import packages_with

from flint_shim.snapshot.outcome import canonical, difference

SOURCE = """
    import helpers, json
    from helpers import triangle
    scale, counter, table = 3, 0, [1, 2]

    def fact(n):
        result = 1
        for i in range(2, n + 1): result *= i
        return result

    def recursive(n):
        return 1 if n < 2 else n * recursive(n - 1)

    def outer(x): return scaled(x) + 0.5
    def scaled(x): return triangle(x) * scale
    def counting(x): return x + counter
    def tabled(x): return x + table[0]
    def textual(x): return json.dumps([x])
    def divided(x): return 7.0 / x
    def unused(x): return x

    def bump():
        global counter
        counter = 5

    def main(params):
        n = params["n"]
        out = {"fact": fact(n), "recursive": recursive(n), "outer": outer(n), "counting": counting(n), "tabled": tabled(n),
               "textual": textual(n)}
        try:
            out["divided"] = divided(n - 5)
        except ZeroDivisionError as error:
            out["divided"] = str(error)
        if "kinds" in params:
            functions = fact, recursive, triangle, helpers.triangle, scaled, outer, counting, tabled, textual, divided
            out["kinds"] = [type(function).__name__ for function in functions]
        return out
"""
HELPERS = """
    def triangle(x):
        total = 0
        for i in range(x + 1): total += i
        return total
"""


class Numba(ForkTestCase):
    def frozen_with_numba(self, source, warmup, jit="numba", files=None):
        self.packages = packages_with(self, "numba")
        return self.frozen(source, warmup, {"calls": 20, "jit": jit, "budgetMs": 60_000}, env={"PYTHONPATH": self.packages}, files=files,
                           init_env={"NUMBA_CACHE_DIR": self.directory({})})

    def notes(self, zygote):
        notes = [note[len("numba: "):] for note in zygote.report["notes"]]
        if any(note.endswith(": compiled") for note in notes):
            self.assertIn("64 bits", notes.pop(0))
        return dict(note.split(": ", 1) for note in notes)

    def test_compiles_what_stays_the_same_and_says_what_does_not(self):
        zygote = self.frozen_with_numba(SOURCE, ({"n": 5}, {"n": 12}), files={"helpers.py": HELPERS})
        notes = self.notes(zygote)
        compiled = ("fact", "recursive", "triangle", "scaled", "outer")
        for name in compiled:
            self.assertEqual(notes.pop(name), "compiled")
        self.assertEqual(notes.pop("counting"), "left as it is, it reads the global 'counter', to which a function assigns")
        self.assertEqual(notes.pop("tabled"), "left as it is, it reads the global 'table', whose content may change")
        self.assertIn("left as it is, numba cannot compile it (", notes.pop("textual"))
        self.assertEqual(notes.pop("divided"), "left as it is, the result would change (str 'float division by zero' became str 'division by zero')")
        self.assertEqual(notes, {})
        tiers = {function["name"]: function["tier"] for function in zygote.report["functions"]}
        self.assertEqual({name for name, tier in tiers.items() if tier == "numba"}, set(compiled))
        self.assertEqual((zygote.report["optimised"], zygote.report["functions"][-1]["tier"]), (5, "numba"))

        answer = self.clone(zygote).invoke({"n": 10, "kinds": 1}).json()
        self.assertEqual(answer.pop("kinds"), ["CPUDispatcher"] * 6 + ["function"] * 4)
        self.assertEqual(answer, {"fact": 3628800, "recursive": 3628800, "outer": 165.5, "counting": 10, "tabled": 11,
                                  "textual": "[10]", "divided": 1.4})

    def test_what_a_comparison_would_not_show(self):
        source = """
            import helpers
            def printing(x):
                print(x)
                return x
            def attributed(x): return x
            attributed.cache = {}
            def elsewhere(x): return x + helpers.offset
            def fixed(x): return x + helpers.limit
            def decorated(function): return lambda: function()
            @decorated
            def change():
                helpers.offset = 2
            def main(params): return [printing(1), attributed(1), elsewhere(1), fixed(1)]
        """
        zygote = self.frozen_with_numba(source, ({},), files={"helpers.py": "offset = limit = 1"})
        self.assertEqual(self.notes(zygote), {
            "printing": "left as it is, it calls print()", "attributed": "left as it is, it has attributes",
            "elsewhere": "left as it is, it reads the global 'offset', to which a function assigns", "fixed": "compiled"})

    def test_types_that_the_warm_up_did_not_bring_go_to_the_original(self):
        source = "def double(x): return x + x\ndef main(params): return {'double': double(params['x'])}"
        clone = self.clone(self.frozen_with_numba(source, ({"x": 1},)))
        for given, expected in ((2, 4), ("a", "aa"), ([1], [1, 1]), (0.5, 1.0)):
            self.assertEqual(clone.invoke({"x": given}).json(), {"double": expected})
        self.assertEqual(clone.invoke({"x": None}).json(), {"error": "unsupported operand type(s) for +: 'NoneType' and 'NoneType'"})

    def test_results_that_overflow_in_64_bits_keep_the_original(self):
        source = "def power(x): return x ** 3\ndef main(params): return {'power': power(params['x'])}"
        zygote = self.frozen_with_numba(source, ({"x": 2}, {"x": 10**9}))
        self.assertIn("left as it is, the result would change (int 1000000000000000000000000000 became int ", self.notes(zygote)["power"])
        self.assertEqual(self.clone(zygote).invoke({"x": 10**9}).json(), {"power": 10**27})

    def test_indices_out_of_range_stay_errors(self):
        source = "import numpy\ndef pick(array, i): return array[i]\ndef main(params): return {'got': float(pick(numpy.arange(3.0), params['i']))}"
        zygote = self.frozen_with_numba(source, ({"i": 1},))
        self.assertEqual(self.notes(zygote), {"pick": "compiled"})
        clone = self.clone(zygote)
        self.assertEqual(clone.invoke({"i": 2}).json(), {"got": 2.0})
        self.assertIn("out of bounds", clone.invoke({"i": 10**6}).json()["error"])

    def test_results_that_differ_anyway_compile_nothing(self):
        zygote = self.frozen_with_numba("import random\ndef f(x): return x + random.random()\ndef main(params): return {'f': f(1)}", ({},))
        self.assertIn("nothing was compiled, because the function's result differs from call to call", zygote.report["notes"][0])

    def test_numbers_of_numpy_in_results(self):
        source = ("import numpy\ndef total(a):\n    sum = 0.0\n    for i in range(len(a)): sum += a[i]\n    return sum\n"
                  "def main(params): return {'total': total(numpy.arange(10.0))}")
        zygote = self.frozen_with_numba(source, ({},))
        self.assertEqual(self.notes(zygote), {"total": "compiled"})
        self.assertEqual(self.clone(zygote).invoke().json(), {"total": 45.0})

    def test_without_warm_up(self):
        zygote = self.frozen_with_numba("def main(params): return {}", ())
        self.assertEqual(zygote.report["notes"], ["numba: there is no warm-up event to compare the results of, nothing was compiled"])

    def test_functions_that_the_user_has_compiled(self):
        source = "import numba\n@numba.njit\ndef double(x): return x + x\ndef main(params): return {'double': double(2)}"
        zygote = self.frozen_with_numba(source, ({},), jit=None)
        tiers = {function["name"]: function["tier"] for function in zygote.report["functions"]}
        self.assertEqual(tiers, {"main": "python", "double": "numba"})
        self.assertEqual(self.clone(zygote).invoke().json(), {"double": 4})

    def test_functions_that_compile_in_a_clone_find_their_cache(self):
        cache = self.directory({"x": ""})
        source = "import numba\n@numba.njit(cache=True)\ndef double(x): return x + x\ndef main(params): return {'double': double(params['x'])}"
        zygote = self.frozen(source, ({"x": 1},), env={"PYTHONPATH": packages_with(self, "numba")}, init_env={"NUMBA_CACHE_DIR": os.path.join(cache, "numba")})
        shutil.rmtree(os.path.join(cache, "numba"))  # as in the /tmp of a clone
        self.assertEqual(self.clone(zygote).invoke({"x": 1.5}).json(), {"double": 3.0})

    def test_random_numbers_of_compiled_functions_differ(self):
        source = ("import numba, numpy, random\n@numba.njit\ndef draw(): return random.random(), numpy.random.random()\n"
                  "def main(params): return list(draw())")
        zygote = self.frozen_with_numba(source, ({},), jit=None)
        drawn = [tuple(self.clone(zygote).invoke().json()) for _ in range(10)]
        for column in zip(*drawn):
            self.assertEqual(len(set(column)), len(drawn))


if sys.version_info[:2] != (3, 11):
    del Numba  # it takes long to install; one interpreter is enough to show that it works


class WithoutNumba(ForkTestCase):
    def test_missing(self):
        zygote = self.zygote("def main(params): return {}", env={"PYTHONPATH": self.directory({"numba.py": "raise ModuleNotFoundError(name='numba')"})})
        zygote.invoke(warmup=True)
        answer = self.freeze(zygote, jit="numba")
        self.assertEqual(answer.json(), {"kind": "snapshot", "message": "numba is not in the function's environment: add it to its virtualenv"})


class Outcomes(unittest.TestCase):
    def test_everything_a_caller_could_notice_makes_a_difference(self):
        for first, second in ((1, 1.0), (1, True), (0.0, -0.0), (1.0, 1.0000000000000002), ([1], (1,)), ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
                              ("1", 1), (b"a", "a"), (None, 0), (ValueError("a"), ValueError("b")), (ValueError("a"), KeyError("a")),
                              ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}), ([1, 2], [1])):
            with self.subTest((first, second)):
                self.assertNotEqual(canonical(first), canonical(second))

    def test_what_is_the_same(self):
        nan = float("nan")
        for value in (1, 0.1 + 0.2, nan, -0.0, "text", [1, {"a": (None, b"x", nan)}], {3, 1, 2}, ValueError("a")):
            self.assertEqual(canonical(value), canonical(value))

    def test_words(self):
        self.assertEqual(difference(canonical({"a": [1, 2.5]}), canonical({"a": [1, 3.5]})), "float 2.5 became float 3.5")
        self.assertEqual(difference(canonical({"a": 1}), canonical({"a": 1.0})), "int 1 became float 1.0")


if __name__ == "__main__":
    unittest.main()
