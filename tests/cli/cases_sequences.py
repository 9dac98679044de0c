"""Sequences: created, listed, shown, called, explained and deleted."""

from harness import claim

ADD = "exports.main = ({ n }) => ({ n: n + 1 });\n"
STOP = "exports.main = ({ n }) => ({ error: `no ${n}` });\n"


def test_a_sequence_is_created_called_explained_and_deleted(world):
    world.ok("deploy", world.file("add.js", ADD))
    world.ok("deploy", world.file("stop.js", STOP))
    done = world.ok("sequence", "create", "twice", "add,add")
    claim("guest/twice 0.0.1" in done.text and "2. /guest/add" in done.text, done)
    claim(world.ok("invoke", "twice", "-p", "n=1").json() == {"n": 3}, "each gets what the one before answered")
    claim(world.ok("sequence", "get", "twice", "--json").json()["components"] == ["/guest/add", "/guest/add"])
    claim("/guest/add → /guest/add" in world.ok("sequence", "list").text, "the table has it")
    done = world.ok("sequence", "list", "-n", "1")
    claim("twice" in done.text and "--skip 1" in done.text, done)
    claim("no more sequences" in world.ok("sequence", "list", "-n", "1", "--skip", "1").text)
    claim("in this part" in world.ok("sequence", "list", "-n", "0").text and "in this part" in world.ok("list", "-n", "0").text)
    record = world.ok("invoke", "twice", "-p", "n=1", "--json").json()
    claim(len(record["components"]) == 2, record)
    text = world.ok("explain", record["id"]).text
    claim("sequence" in text and "in 2 steps" in text and text.count("guest/add") == 2, text)
    claim(all(step in text for step in record["components"]), text)

    world.refused(4, "resource already exists", "--update", arguments=["sequence", "create", "twice", "add"])
    done = world.ok("sequence", "create", "twice", "add", "stop", "add", "--update")
    claim("0.0.2" in done.text and "3. /guest/add" in done.text, done)
    done = world.run("invoke", "twice", "-p", "n=1")
    claim(done.code == 1 and "no 2" in done.text, done)
    world.refused(4, "Sequence component does not exist.", "there is no 'none':", arguments=["sequence", "create", "x", "add,none"])
    world.refused(4, "is a sequence", "flint sequence", arguments=["get", "twice"])
    world.refused(4, "is a function", arguments=["sequence", "rm", "add"])
    claim(world.ok("sequence", "rm", "twice").text.strip() == "deleted twice")
    world.refused(4, "there is no sequence 'twice'", "flint sequence list", arguments=["sequence", "get", "twice"])
    claim(world.ok("invoke", "add", "-p", "n=1").json() == {"n": 2}, "what it called stays")
