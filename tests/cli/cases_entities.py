"""Packages, triggers and rules."""

import sqlite3

from harness import claim, eventually

ECHO = "exports.main = (params) => params;\n"


def test_a_package_is_created_bound_shown_and_deleted(world):
    done = world.ok("package", "create", "tools", "-p", "greeting=hello", "-p", "n=1", "--shared")
    claim("created tools 0.0.1" in done.text, done)
    world.refused(4, "resource already exists", "--update", arguments=["package", "create", "tools"])
    claim("updated tools 0.0.2" in world.ok("package", "create", "tools", "-a", "description=mine", "--update").text)
    world.ok("deploy", world.file("echo.js", ECHO), "--name", "tools/echo")
    claim(world.ok("invoke", "tools/echo", "-p", "x=2").json() == {"greeting": "hello", "n": 1, "x": 2}, "inherited arguments")
    world.ok("package", "bind", "tools", "mine", "-p", "n=9")
    claim(world.ok("invoke", "mine/echo").json() == {"greeting": "hello", "n": 9}, "a binding's arguments come over its provider's")
    text = world.ok("package", "get", "mine").text
    claim("/guest/tools" in text and "echo 0.0.1" in text and 'greeting = "hello"' in text and "n = 9" in text, text)
    listed = world.ok("package", "list", "--json").json()
    claim({package["name"] for package in listed} >= {"tools", "mine"}, listed)
    table = world.ok("package", "list").text
    claim("/guest/tools" in table and "yes" in table, table)
    claim(world.ok("package", "list", "nobody").text.strip() == "none")
    world.refused(4, "Package not empty (contains 1 entity)", "--force", arguments=["package", "delete", "tools"])
    claim(world.ok("package", "delete", "tools", "--force").text.strip() == "deleted tools")
    for arguments in (["package", "get", "mine"], ["get", "mine/echo"], ["invoke", "mine/echo"]):
        world.refused(4, "'guest/mine' is bound to package 'guest/tools', which does not exist", arguments=arguments)
    claim(world.ok("package", "delete", "mine").text.strip() == "deleted mine")
    world.refused(4, "there is no function", arguments=["invoke", "tools/echo"])
    world.refused(4, "there is no package 'tools'", "flint package list", arguments=["package", "get", "tools"])


def test_a_fired_trigger_calls_the_functions_of_its_rules(world):
    world.ok("deploy", world.file("listens.js", ECHO))
    claim("created event 0.0.1" in world.ok("trigger", "create", "event", "-p", "a=1").text)
    text = world.ok("trigger", "fire", "event").text
    claim("no active rule" in text, text)
    claim("created reacts 0.0.1" in world.ok("rule", "create", "reacts", "event", "listens").text)
    claim("/guest/reacts /guest/listens active" in world.ok("trigger", "get", "event").text)
    fired = world.ok("trigger", "fire", "event", "-p", "b=2", "--json").json()
    claim(len(fired["activationId"]) == 32, fired)
    claim("is inactive" in world.ok("rule", "disable", "reacts").text)
    claim(world.ok("trigger", "fire", "event", "--json").text.strip() == "null", "nothing was called")
    claim(world.ok("trigger", "fire", "event", "-P", "-", "--json", stdin=b'{"b": 3}').code == 0)
    claim("is active" in world.ok("rule", "enable", "reacts").text)
    rules = world.ok("rule", "list").text
    claim("/guest/event" in rules and "/guest/listens" in rules, rules)
    claim(world.ok("rule", "get", "reacts", "--json").json()["status"] == "active")
    claim("event" in world.ok("trigger", "list").text)
    world.refused(4, "trigger /guest/none does not exist", arguments=["rule", "create", "r", "none", "listens"])
    world.refused(2, "is not a name", arguments=["trigger", "get", "a/b"])
    claim("deleted" in world.ok("rm", "listens").text)
    fired = world.ok("trigger", "fire", "event")
    claim("fired event" in fired.text and "warning: rule /guest/reacts did not call /guest/listens: " in fired.said, fired)
    for arguments in (["rule", "delete", "reacts"], ["trigger", "delete", "event"]):
        claim("deleted" in world.ok(*arguments).text)
    world.refused(4, "there is no trigger 'event'", "flint trigger list", arguments=["trigger", "fire", "event"])
    world.refused(4, "there is no rule 'reacts'", "flint rule list", arguments=["rule", "enable", "reacts"])


def test_a_feed_that_is_gone_broken_or_damaged_is_named(world):
    only_creates = "exports.main = (params) => { if (params.lifecycleEvent !== 'CREATE') throw new Error('no such event'); return {}; };\n"
    world.ok("deploy", world.file("feeder.js", only_creates), "--annotation", "feed=true")
    created = world.ok("trigger", "create", "fed", "--feed", "feeder")
    claim("warning" not in created.said, created)
    shown = world.ok("trigger", "get", "fed")
    claim("warning: the feed feeder has not done it: " in shown.said and "no such event" in shown.said and "/guest/fed" in shown.text, shown)
    world.refused(4, "the feed feeder has not done it: ", "no such event", arguments=["trigger", "pause", "fed"])
    world.ok("rm", "feeder")
    shown = world.ok("trigger", "get", "fed")
    claim("warning: there is no feed feeder" in shown.said and "/guest/fed" in shown.text, shown)
    world.refused(4, "there is no feed feeder", "flint package get", arguments=["trigger", "pause", "fed"])
    deleted = world.ok("trigger", "delete", "fed")
    claim("warning: there is no feed feeder" in deleted.said and "deleted fed" in deleted.text, deleted)

    alarm = ["--feed", "/whisk.system/alarms/alarm", "-p", "cron=0 0 1 1 *"]
    world.ok("trigger", "create", "spoilt", *alarm)
    with sqlite3.connect(world.server.data_dir / "flint.db") as database:
        database.execute("UPDATE feeds SET body = '{' WHERE trigger = 'spoilt'")
    database.close()
    damaged = "the feed of the trigger /guest/spoilt is damaged and does not fire: delete the trigger, and create it again"
    for arguments in (["pause", "spoilt"], ["create", "spoilt", *alarm, "--update"]):
        world.refused(4, damaged, arguments=["trigger", *arguments])
    claim(damaged in world.ok("trigger", "get", "spoilt").said)
    world.ok("trigger", "delete", "spoilt")
    claim("fires next" in world.ok("trigger", "create", "spoilt", *alarm).text)
    world.ok("trigger", "delete", "spoilt")


def test_a_trigger_is_fired_by_its_feed(world):
    world.ok("deploy", world.file("hears.js", ECHO))
    alarm = "/whisk.system/alarms/alarm"
    created = world.ok("trigger", "create", "yearly", "--feed", alarm, "-p", "cron=0 0 1 1 *", "-p", "trigger_payload={\"a\": 1}")
    claim("created yearly, fires next at " in created.text and "-01-01T00:00:00.000Z" in created.text, created)
    world.ok("rule", "create", "hearing", "yearly", "hears")
    text = world.ok("trigger", "get", "yearly").text
    claim("0 0 1 1 *" in text and "next firing" in text and "/guest/hearing /guest/hears active" in text, text)
    shown = world.ok("trigger", "get", "yearly", "--json").json()
    claim(shown["feed"]["config"]["payload"] == {"a": 1} and shown["feed"]["status"]["nextFire"] > 0, shown)
    claim(world.ok("trigger", "pause", "yearly").text.strip() == "paused yearly")
    claim("Paused" in world.ok("trigger", "get", "yearly").text)
    claim(world.ok("trigger", "resume", "yearly").text.strip() == "resumed yearly")
    updated = world.ok("trigger", "create", "yearly", "--feed", alarm, "-p", "cron=* * * * * *", "--update")
    claim("updated yearly" in updated.text, updated)
    eventually("a firing", lambda: world.ok("trigger", "get", "yearly", "--json").json()["feed"]["status"]["fired"] > 0)
    # An update keeps the annotations that are there, what a feed refuses changes nothing, and another feed is refused.
    kept = lambda: {pair["key"]: pair["value"] for pair in world.ok("trigger", "get", "yearly", "--json").json()["annotations"]}
    world.ok("trigger", "create", "yearly", "-a", "team=x", "--feed", alarm, "-p", "cron=0 0 1 1 *", "--update")
    world.ok("trigger", "create", "yearly", "--feed", alarm, "-p", "cron=0 0 2 1 *", "--update")
    claim(kept() == {"team": "x", "feed": alarm}, kept())
    world.refused(4, "not valid", arguments=["trigger", "create", "yearly", "-a", "team=y", "--feed", alarm, "-p", "cron=never", "--update"])
    claim(kept() == {"team": "x", "feed": alarm}, kept())
    interval = "/whisk.system/alarms/interval"
    world.ok("trigger", "create", "yearly", "-a", "team=z", "--update")
    claim(kept() == {"team": "z", "feed": alarm}, kept())
    world.refused(2, alarm, "trigger delete yearly", arguments=["trigger", "create", "yearly", "--feed", interval, "-p", "minutes=60", "--update"])
    claim(kept() == {"team": "z", "feed": alarm}, kept())
    claim("deleted yearly" in world.ok("trigger", "delete", "yearly").text)
    # What cannot be is refused, and leaves no trigger behind.
    world.refused(4, "cron pattern 'never' is not valid", arguments=["trigger", "create", "t", "--feed", alarm, "-p", "cron=never"])
    world.refused(4, "there is no trigger", arguments=["trigger", "get", "t"])
    world.refused(2, "is not a feed", arguments=["trigger", "create", "t", "--feed", "a//b"])
    created = world.ok("trigger", "create", "unfed", "--feed", "hears")
    claim("warning: hears is not marked as a feed" in created.said and "created unfed" in created.text, created)
    world.ok("trigger", "delete", "unfed")
    world.ok("trigger", "create", "plain")
    world.refused(2, "has no feed", arguments=["trigger", "pause", "plain"])
    claim(world.ok("invoke", "/whisk.system/samples/greeting", "-p", "name=Odin").json() == {"payload": "Hello, Odin from somewhere!"})
    for arguments in (["trigger", "delete", "plain"], ["rule", "delete", "hearing"], ["rm", "hears"]):
        world.ok(*arguments)
