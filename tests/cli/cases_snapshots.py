"""Saying how a function is warmed up and frozen, and seeing what became of it. None of it needs a host that can fork."""

import json

from harness import claim

ADD_JS = "exports.main = ({ a = 0, b = 0 }) => ({ sum: a + b });\n"
PHOTO = b"\xff\xd8\xff\xe0 not really a photo"


def snapshot_of(world, name):
    return world.ok("get", name, "--json").json().get("snapshot")


def test_warm_up_events_come_from_files_and_are_shown(world):
    event, photo = world.file("event.json", '{"a": 1, "b": 2}'), world.file("photo.jpg", PHOTO)
    events = world.file("events.json", json.dumps([{"params": {"a": 5}}, {"body": "AAEC", "content_type": "a/b"}]))
    code = world.file("warmed.js", ADD_JS)
    done = world.ok("deploy", code, "--warmup", event, "--warmup", photo, "--warmup-list", events, "--warmup-network", "--no-annotate", "--start", "spawn", "--json")
    shown = {"warmup_events": 4, "warmup_bytes": 13 + len(PHOTO) + 7 + 3, "warmup_network": True, "annotate": False}
    claim(done.json()["function"]["snapshot"] == shown, done)
    claim("it is not warmed up" in done.json()["notes"][0], done)
    claim(snapshot_of(world, "warmed") == shown, "the function goes on saying it")
    text = world.ok("get", "warmed").text
    claim("4 events" in text and "with the network" in text and "not annotated" in text, text)
    claim(world.ok("invoke", "warmed", "-p", "a=2", "-p", "b=3").json() == {"sum": 5}, "warming up does not change what it answers")
    done = world.ok("deploy", code, "--start", "spawn", "--json").json()
    claim("snapshot" not in done["function"], "a deploy says all of what a function is")


def test_a_manifest_names_events_beside_it_and_the_command_line_wins(world):
    world.file("hot/index.js", ADD_JS)
    world.file("hot/event.json", '{"a": 1}')
    world.file("hot/flint.toml", "name = 'hot'\n[snapshot]\nwarmup = ['event.json']\nannotate = false\n")
    done = world.ok("deploy", world.path("hot"), "--json").json()
    claim(done["function"]["snapshot"]["warmup_events"] == 1 and done["function"]["snapshot"]["annotate"] is False, done)
    done = world.ok("deploy", world.path("hot"), "--warmup", "none", "--json").json()
    claim(done["function"]["snapshot"]["warmup_events"] == 0, done)


def test_events_that_cannot_be_are_refused_with_the_cause(world):
    code = world.file("refused.js", ADD_JS)
    broken, event = world.file("broken.json", "{"), world.file("one.json", "{}")
    many = world.file("many.json", json.dumps([{"params": n} for n in range(65)]))
    neither = world.file("neither.json", json.dumps([{}]))
    heavy = [option for n in range(3) for option in ("--warmup", world.file(f"heavy{n}.bin", bytes(400 * 1024)))]
    for exit_code, said, hint, options in [
        (2, "broken.json is not JSON", "arguments of a call", ["--warmup", broken]),
        (2, "--warmup none stands alone", "leave it out", ["--warmup", "none", "--warmup", event]),
        (2, "cannot read", "check the path", ["--warmup", world.path("nowhere.json")]),
        (4, "65 warm-up events are more than the 64", "", ["--warmup-list", many]),
        (4, "snapshot.warmup[0] needs either 'params', or 'body'", "", ["--warmup-list", neither]),
        (4, "more than the 1 MB that a function may have", "", heavy),
        (4, "jit numba compiles Python", "", ["--jit", "numba"]),
    ]:
        world.refused(exit_code, said, hint, arguments=["deploy", code, *options])
    world.refused(2, "'magic' is not a value of jit", "numba", arguments=["deploy", code, "--jit", "magic"])
    world.refused(4, "there is no function 'refused'", "flint list", arguments=["get", "refused"])


def test_what_was_asked_for_is_told_from_what_was_chosen(world):
    code = world.file("asked.js", ADD_JS)
    done = world.ok("deploy", code, "--start", "spawn", "--reuse", "never", "--json").json()["function"]
    claim(done["asked"] == {"start": "spawn", "reuse": "never"} and done["prepared"]["strategy"]["reuse"] == "never", done)
    claim("asked for: start spawn, reuse never" in world.ok("get", "asked").text)
    text = world.ok("explain", "asked").text
    claim("start spawn (asked for)" in text and "reuse never (asked for)" in text, text)
    world.ok("deploy", code)
    claim("chosen by Flint" in world.ok("get", "asked").text, "the next deploy said nothing")
    explained = world.ok("explain", "asked", "--json").json()
    claim(explained["function"]["asked"] == {} and explained["strategy"] == explained["function"]["prepared"]["strategy"], explained)


def test_a_function_that_would_be_forked_and_is_not_says_why(world):
    world.ok("deploy", world.file("whynot.js", ADD_JS))
    explained = world.ok("explain", "whynot", "--json").json()
    started = explained["function"]["strategy"]["start"]
    why = [reason for reason in explained["reasons"] if reason.startswith("start fork would be the default")]
    claim(started == "fork" and not why or started == "spawn" and len(why) == 1, explained)
    done = world.run("deploy", world.file("fork.js", ADD_JS), "--start", "fork")
    claim(done.code == (0 if started == "fork" else 4), done)
    if started == "spawn":
        claim("is not available on this host: " in done.said and "flint doctor" in done.said, done)


def test_asking_for_a_start_that_nothing_has_is_refused_with_what_is_missing(world):
    code = world.file("stored.js", ADD_JS)
    world.refused(4, "the strategy process/restore/warm×1 is not available on this host", "flint doctor", arguments=["deploy", code, "--start", "restore"])
