"""What ActionLoop promises, asked of the launchers of languages that are reached over it."""

import json
import os
import select
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

RUNTIMES = Path(__file__).resolve().parent.parent

FUNCTIONS = {
    "php": ("index.php", """<?php
        function main(array $args): array {
            echo "out\\n";
            fwrite(STDERR, "err\\n");
            if ($args["fail"] ?? false) { throw new Exception("no such luck"); }
            return ["got" => $args, "key" => getenv("__OW_API_KEY") ?: null, "id" => getenv("__OW_ACTIVATION_ID")];
        }
        function listed(array $args): array { return [...$args, count($args)]; }
        function nothing(): void {}
        function number(): int { return 5; }
        function forks(array $args): array {
            if (!function_exists("pcntl_fork")) { return ["status" => $args["status"]]; }
            $child = pcntl_fork();
            if ($child === 0) {
                if ($args["raise"] ?? false) { throw new Exception("in the child"); }
                return ["from" => "the child"];
            }
            pcntl_waitpid($child, $status);
            return ["status" => pcntl_wexitstatus($status) > 0 ? 1 : 0];
        }
        function reads(): array { return ["status" => trim(shell_exec("timeout 10 cat; echo \\$?"))]; }
        class Other { static function run(array $args): array { return ["run" => true]; } }""", "Other::run"),
    "ruby": ("main.rb", """
        def main(args)
          puts 'out'
          warn 'err'
          raise 'no such luck' if args['fail']
          { got: args, key: ENV['__OW_API_KEY'], id: ENV['__OW_ACTIVATION_ID'] }
        end
        def listed(args) = args + [args.length]
        def nothing(_) = nil
        def number(_) = 5
        def forks(args)
          unless (child = fork)
            raise 'in the child' if args['raise']
            return { from: 'the child' }
          end
          Process.wait(child)
          { status: $?.exitstatus }
        end
        def reads(_) = { status: `timeout 10 cat; echo $?`.strip }
        module Other
          def self.run(_) = { run: true }
        end""", "Other.run"),
}

GO = """package main

import (
    "os"
    "os/exec"
)

func Main(map[string]interface{}) map[string]interface{} {
    command := exec.Command("timeout", "10", "cat")
    command.Stdin = os.Stdin
    return map[string]interface{}{"failed": command.Run() != nil}
}
"""


class Loop:
    """A launcher with a function, started."""

    def __init__(self, language, code, main="main", ack=True):
        argv = {"php": ["php", "-n", "-d", "display_errors=stderr", str(RUNTIMES / "php/launcher.php")],
                "ruby": ["ruby", str(RUNTIMES / "ruby/launcher.rb")],
                "go": []}[language]  # the code is the launcher
        read, write = os.pipe()
        environment = dict(os.environ, LANG="C.UTF-8", **({"__OW_WAIT_FOR_ACK": "1"} if ack else {}))
        # The pipe's end becomes descriptor 3, whatever its number is here.
        shell = ["sh", "-c", f'exec "$@" 3>&{write} {write}>&-' if write != 3 else 'exec "$@"', "sh"]
        self.process = subprocess.Popen([*shell, *argv, str(code), main], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=environment, pass_fds=[write])
        os.close(write)
        self.answers = os.fdopen(read, encoding="utf-8")

    def call(self, value, **more):
        line = json.dumps({"value": value, **more}, ensure_ascii=False) + "\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()
        return self.answer()

    def answer(self):
        return json.loads(self.answers.readline())

    def end(self):
        """(exit status, stdout, stderr), after the last call."""
        out, err = self.process.communicate(timeout=60)
        self.answers.close()
        return self.process.returncode, out.decode(), err.decode()


class ActionLoop(unittest.TestCase):
    def each(self):
        """(language, its folder of code, its other entry point) of every language that is here."""
        for language, (name, source, other) in FUNCTIONS.items():
            if not shutil.which(language):
                continue
            with self.subTest(language), tempfile.TemporaryDirectory() as folder:
                (Path(folder) / name).write_text(source)
                yield language, Path(folder), name, other

    def test_a_call_is_answered_logged_and_knows_its_activation(self):
        for language, folder, name, _ in self.each():
            loop = Loop(language, folder)
            self.assertEqual(loop.answer(), {"ok": True})
            value = {"text": "Zoë\n", "nested": {"list": [1, 2.5, None]}}
            self.assertEqual(loop.call(value, activation_id="a1", api_key="k"), {"got": value, "key": "k", "id": "a1"})
            # What the next call does not bring is gone.
            self.assertEqual(loop.call({"n": 1}, activation_id="a2"), {"got": {"n": 1}, "key": None, "id": "a2"})
            self.assertEqual(loop.call({"fail": True}), {"error": "no such luck"})
            status, out, err = loop.end()
            self.assertEqual((status, out), (0, "out\n" * 3))
            self.assertEqual(err.count("err\n"), 3)
            self.assertIn("no such luck", err)
            # Where it was, and nothing of the launcher's.
            self.assertRegex(err, rf"{name}[:(]\d+")
            self.assertNotIn("launcher", err)

    def test_a_long_line_is_one_call(self):
        for language, folder, name, _ in self.each():
            loop = Loop(language, folder / name, ack=False)
            text = "x" * 1_000_000
            self.assertEqual(loop.call({"text": text})["got"], {"text": text})
            loop.end()

    def test_what_is_nested_deeply_is_one_call(self):
        value = {"got": 1}
        for _ in range(900):
            value = [value]
        for language, folder, _, _ in self.each():
            loop = Loop(language, folder, ack=False)
            self.assertEqual(loop.call({"deep": value})["got"], {"deep": value})
            loop.end()

    def test_entry_points_and_what_they_return(self):
        for language, folder, _, other in self.each():
            for main, value, expected in [(other, {}, {"run": True}), ("listed", [7, 8], [7, 8, 2]), ("nothing", {}, {}), ("number", {}, 5)]:
                loop = Loop(language, folder, main, ack=False)
                self.assertEqual(loop.call(value), expected, main)
                loop.end()

    def test_what_a_function_starts_does_not_read_its_calls(self):
        for language, folder, _, _ in self.each():
            loop = Loop(language, folder, "reads", ack=False)
            for _ in range(2):
                self.assertEqual(loop.call({}), {"status": "0"})
            loop.end()

    def test_a_process_that_the_function_forks_gives_no_answer(self):
        for language, folder, _, _ in self.each():
            loop = Loop(language, folder, "forks", ack=False)
            for value in ({"status": 0}, {"status": 1, "raise": True}, {"status": 0}):
                self.assertEqual(loop.call(value), {"status": value["status"]})
            self.assertEqual(loop.end()[0], 0)

    @unittest.skipUnless(shutil.which("go"), "Go is not here")
    def test_what_a_go_function_starts_does_not_read_its_calls(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "launcher.go").write_text((RUNTIMES / "go/launcher.go").read_text().replace("FLINT_MAIN", "Main"))
            (Path(folder) / "function.go").write_text(GO)
            (Path(folder) / "go.mod").write_text("module function\n\ngo 1.13\n")  # older than what the launcher needs of the toolchain
            subprocess.run(["go", "build", "-o", "program", "."], cwd=folder, check=True, env=dict(os.environ, CGO_ENABLED="0"))
            loop = Loop("go", Path(folder) / "program", ack=False)
            for _ in range(2):
                self.assertEqual(loop.call({}), {"failed": False})
            loop.end()

    def test_what_a_call_leaves_in_a_buffer_is_in_its_log(self):
        for language, folder, name, _ in self.each():
            if language != "php":
                continue
            (folder / name).write_text("""<?php function main(array $args): array {
                if ($args["leave"] ?? false) { ob_start(); ob_start(); echo "left\\n"; throw new Exception("no such luck"); }
                echo "out\\n";
                return [];
            }""")
            loop = Loop(language, folder, ack=False)
            for value, said in ({"leave": True}, b"left\n"), ({}, b"out\n"):
                loop.call(value)
                self.assertTrue(select.select([loop.process.stdout], [], [], 10)[0], said)
                self.assertEqual(os.read(loop.process.stdout.fileno(), 100), said)
            loop.end()

    def test_variables_at_the_top_of_a_php_file_are_global(self):
        for language, folder, name, _ in self.each():
            if language != "php":
                continue
            (folder / "other.php").write_text("<?php $factor = 7; function factor() { global $factor; return $factor; }")
            (folder / name).write_text("""<?php
                require __DIR__ . "/other.php";
                $calls = 0;
                $argv = null;
                $found = array_diff(array_keys(get_defined_vars()), ["_GET", "_POST", "_COOKIE", "_FILES", "_SERVER", "_ENV", "_REQUEST", "argv", "argc", "calls", "factor"]);
                function main(array $args): array {
                    global $found;
                    return ["calls" => ++$GLOBALS["calls"], "factor" => factor(), "found" => array_values($found)];
                }""")
            loop = Loop(language, folder, ack=False)
            for calls in 1, 2:
                self.assertEqual(loop.call({}), {"calls": calls, "factor": 7, "found": []})
            self.assertEqual(loop.end(), (0, "", ""))

    def test_every_way_to_the_environment_leads_to_this_calls(self):
        for language, folder, name, _ in self.each():
            if language != "php":
                continue
            (folder / name).write_text("""<?php function main(array $args): array {
                return array_map(fn ($from) => $from["__OW_API_KEY"] ?? null, [$_ENV, $_SERVER, getenv()]);
            }""")
            loop = Loop(language, folder, ack=False)
            for key in "a", "b":
                self.assertEqual(loop.call({}, api_key=key), [key] * 3)
            self.assertEqual(loop.call({}), [None] * 3)
            loop.end()

    def test_text_is_text_whatever_the_function_makes_the_default(self):
        for language, folder, name, _ in self.each():
            if language != "ruby":
                continue
            (folder / name).write_text("Encoding.default_external = Encoding::ISO_8859_1\ndef main(args) = args\n")
            loop = Loop(language, folder, ack=False)
            self.assertEqual(loop.call({"text": "Zoë ☃"}), {"text": "Zoë ☃"})
            loop.end()

    def test_calls_are_lines_whatever_the_function_takes_for_their_end(self):
        for language, folder, name, _ in self.each():
            if language != "ruby":
                continue
            (folder / name).write_text("def main(args)\n  $/ = nil\n  args\nend\n")
            loop = Loop(language, folder, ack=False)
            for n in range(3):
                self.assertEqual(loop.call({"n": n}), {"n": n})
            loop.end()

    def test_a_ruby_function_finds_its_gems_and_no_arguments(self):
        for language, folder, name, _ in self.each():
            if language != "ruby":
                continue
            line = subprocess.run(["ruby", "-e", "print RbConfig::CONFIG['ruby_version']"], check=True, capture_output=True, text=True).stdout
            gems = folder / "vendor/bundle/ruby" / line
            for path, text in {
                "specifications/hey-1.0.0.gemspec": "Gem::Specification.new { |s| s.name = 'hey'; s.version = '1.0.0'; s.summary = 'hey'; s.authors = ['me'] }",
                "gems/hey-1.0.0/lib/hey.rb": "HEY = 'hey'",
            }.items():
                (gems / path).parent.mkdir(parents=True)
                (gems / path).write_text(text)
            (folder / name).write_text("require 'hey'\ndef main(_) = { hey: HEY, arguments: ARGV, read: gets, child: `ruby -e \"require 'hey'; print HEY\"` }\n")
            loop = Loop(language, folder, ack=False)
            self.assertEqual(loop.call({}), {"hey": "hey", "arguments": [], "read": None, "child": "hey"})
            loop.end()

    def test_code_that_does_not_load_is_said_in_place_of_the_acknowledgement(self):
        for language, folder, name, _ in self.each():
            loop = Loop(language, folder, "nowhere")
            self.assertRegex(loop.answer()["error"], "^the code has no (function|method) 'nowhere'$")
            self.assertEqual(loop.end()[0], 1)
            (folder / name).write_text("<?php function main( {" if language == "php" else "def main(")
            loop = Loop(language, folder)
            self.assertIn("error", loop.answer())
            self.assertEqual(loop.end()[0], 1)


if __name__ == "__main__":
    unittest.main()
