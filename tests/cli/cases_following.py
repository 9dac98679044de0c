"""What goes on while one watches: logs -f, dev."""

import os

from harness import claim, eventually

TALKS = "exports.main = ({ n }) => { console.log('said', n); console.error('loud', n); return { n }; };\n"


def test_logs_follow_calls_as_they_end(world):
    world.ok("deploy", world.file("talks.js", TALKS))
    world.ok("deploy", world.file("other.js", TALKS))
    world.ok("invoke", "talks", "-p", "n=1")
    following = world.start("logs", "-f", "talks")
    following.until("said 1")
    world.ok("invoke", "other", "-p", "n=99")
    for n in (2, 3):
        world.ok("invoke", "talks", "-p", f"n={n}")
    text = following.until("loud 3")
    following.end()
    claim(text.count("said 2") == 1 and "out said 2" in text and "err loud 2" in text and "said 99" not in text, text)


def test_logs_say_why_there_are_none(world):
    world.ok("deploy", world.file("silent.js", "exports.main = () => ({});\n"))
    done = world.ok("logs", "silent")
    claim(done.text == "" and "no calls of 'silent' are recorded" in done.said, done)
    world.ok("invoke", "silent")
    done = world.ok("logs", "silent")
    claim(done.text == "" and "logged nothing" in done.said, done)
    claim(world.ok("logs", "silent", "--json").said == "", "a program needs no words")


def test_logs_follow_what_is_called_through_a_binding(world):
    world.ok("package", "create", "speech")
    world.ok("deploy", world.file("talks.js", TALKS), "--name", "speech/talks")
    world.ok("package", "bind", "speech", "bound")
    world.ok("invoke", "bound/talks", "-p", "n=1")
    following = world.start("logs", "-f", "bound/talks")
    following.until("said 1")
    world.ok("invoke", "bound/talks", "-p", "n=2")
    following.until("loud 2")
    following.end()
    for arguments in (["package", "delete", "bound"], ["rm", "speech/talks"], ["package", "delete", "speech"]):
        world.ok(*arguments)


def test_logs_follow_a_sequence_by_its_steps(world):
    world.ok("deploy", world.file("talks.js", TALKS))
    world.ok("sequence", "create", "talk-twice", "talks,talks")
    claim(world.ok("logs", "talk-twice").text == "", "it has not been called")
    following = world.start("logs", "-f", "talk-twice")
    world.ok("invoke", "talk-twice", "-p", "n=7")
    text = following.until("loud 7")
    following.end()
    claim("out talks: said 7" in text, text)
    claim(world.ok("logs", "talk-twice").text.count("out talks: said 7") == 2, "each step is shown")
    world.ok("sequence", "rm", "talk-twice")


def test_logs_of_all_functions_name_them(world):
    world.ok("deploy", world.file("talks.js", TALKS))
    world.ok("invoke", "talks", "-p", "n=7")
    text = world.ok("logs").text
    claim("talks: said 7" in text, text)
    line = [line for line in world.ok("logs", "talks", "-n", "1", "--json").text.splitlines()][0]
    claim('"text":"said 7"' in line, line)


def test_dev_deploys_and_calls_on_every_save(world):
    path = world.file("live.js", "exports.main = ({ name }) => ({ hello: name });\n")
    dev = world.start("dev", path, "-p", "name=dev")
    try:
        dev.until('"hello": "dev"')
        dev.until("watching")
        world.file("live.js", "exports.main = ({ name }) => { console.log('a word'); return { servus: name }; };\n")
        dev.until('"servus": "dev"')
        claim("out │ a word" in dev.text(), dev.text())
        world.file("live.js", "this is not JavaScript\n")
        dev.until("SyntaxError")
        # Editors write a new file and rename it over the old one.
        world.file("live.js.new", "exports.main = () => ({ again: true });\n")
        world.path("live.js.new").rename(path)
        dev.until('"again": true')
        # Its exit code is that of the last call that it was over with.
        eventually("it is over with the call", lambda: "watching" in dev.text().rpartition('"again": true')[2])
    finally:
        code = dev.end()
    claim(code == 0, f"exit code {code}", dev.text())


def test_dev_once_is_for_scripts(world):
    done = world.ok("dev", world.file("once.js", "exports.main = () => ({ once: 1 });\n"), "--once")
    claim('"once": 1' in done.text and "✓" in done.text, done)
    done = world.run("dev", world.file("once.js", "exports.main = () => ({ error: 'no' });\n"), "--once")
    claim(done.code == 1, done)


def test_dev_sees_that_a_file_may_be_executed_now(world):
    path = world.file("becomes/exec", "#!/bin/sh\ncat > /dev/null\necho '{\"ran\": true}'\n")
    dev = world.start("dev", world.path("becomes"), "--contract", "stdio")
    try:
        dev.until("watching")
        os.chmod(path, 0o755)
        dev.until('"ran": true')
        eventually("it is called again", lambda: dev.text().count("watching") == 2)
    finally:
        dev.end()
