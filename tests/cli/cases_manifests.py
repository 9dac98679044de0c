"""Projects deployed from manifests of wskdeploy."""

import json
import os
import urllib.request
import zipfile
from pathlib import Path

from cases_web import opened
from harness import claim, eventually

HELLO_JS = "exports.main = ({ name = 'you', greeting = 'hi', count = 0 }) => ({ text: `${greeting} ${name}`, count: count + 1 });\n"
LOUD_PY = "def main(args):\n    return {'body': args.get('text', 'nothing').upper(), 'token': args.get('token')}\n"

MANIFEST = """\
project:
  name: shouting
  packages:
    shout:
      license: Apache-2.0
      inputs:
        greeting: hello
      annotations:
        about: a test
      dependencies:
        shout-utils:
          location: /whisk.system/utils
      actions:
        hello:
          function: hello.js
          inputs:
            count: { type: integer, value: 4 }
        loud:
          function: src
          runtime: python:default
          inputs:
            token: ${SHOUT_TOKEN}
          limits: { timeout: 30000, memorySize: 256 }
      sequences:
        greet:
          actions: hello, loud
          web: true
        twice:
          actions: shout/greet
      triggers:
        shout-event:
          inputs: { name: trigger }
        shout-yearly:
          feed: /whisk.system/alarms/alarm
          inputs: { cron: "0 0 1 1 *" }
      rules:
        shout-rule:
          trigger: shout-event
          action: greet
      apis:
        shout-api:
          shout:
            say/{name}:
              greet: { method: GET, response: text }
            other:
              greet: GET
"""
SAMPLE = Path(__file__).resolve().parents[2] / "functions/samples/project"
TOKEN = {"SHOUT_TOKEN": "s3cret-token"}


def project(world, name, manifest, **files):
    """A directory with a manifest and its code."""
    world.file(f"{name}/manifest.yaml", manifest)
    world.file(f"{name}/hello.js", HELLO_JS)
    world.file(f"{name}/src/__main__.py", LOUD_PY)
    for file, content in files.items():
        world.file(f"{name}/{file}", content)
    return str(world.path(name))


def lines(done, *signs):
    """The steps of a plan with one of these signs, spaces joined."""
    return [" ".join(line.split()) for line in done.text.splitlines() if line[:2] in [f"{sign} " for sign in signs]]


def test_a_project_is_deployed_called_changed_and_pruned(world):
    path = project(world, "shouting", MANIFEST)
    deploy = ["deploy", "-f", path]

    planned = world.ok(*deploy, "--dry-run", env=TOKEN)
    claim("11 to create" in planned.text and "done" not in planned.text, planned)
    claim("s3cret" not in planned.text + planned.said, planned)
    world.refused(4, "there is no package", arguments=["package", "get", "shout"])

    done = world.ok(*deploy, env=TOKEN)
    claim("11 to create" in done.text and "done: 11 changes" in done.text, done)
    claim(world.ok("invoke", "shout/hello", "-p", "name=ann").json() == {"text": "hello ann", "count": 5}, "inputs of package and action")
    claim(world.ok("invoke", "shout/twice", "-p", "name=bo").json() == {"body": "HELLO BO", "token": "s3cret-token"}, "a sequence of a sequence")
    claim(world.ok("invoke", "shout-utils/echo", "-p", "a=1").json() == {"a": 1}, "a binding")
    world.ok("trigger", "fire", "shout-event")
    ran = lambda: [one for one in world.ok("activations", "shout/greet", "--json").json()["activations"]]
    eventually("the rule's sequence ran", lambda: len(ran()) >= 1)
    url = next(line.split()[-1] for line in world.ok("api", "list").text.splitlines() if "/shout/other" in line)
    claim(opened(f"{url}?name=cy") == (200, "HELLO CY"), url)
    claim(opened(url.replace("/other", "/say/x"))[0] == 200, "a path with a parameter")
    claim("next firing" in world.ok("trigger", "get", "shout-yearly").text, "the feed knows its trigger")

    again = world.ok(*deploy, env=TOKEN)
    claim("11 unchanged" in again.text and not lines(again, "+", "~", "-"), again)

    # One limit, one secret, one component, the alarm's time.
    changed = MANIFEST.replace("timeout: 30000", "timeout: 31000").replace("actions: shout/greet", "actions: greet, hello").replace("0 0 1 1 *", "0 0 2 1 *")
    world.file("shouting/manifest.yaml", changed)
    other = {"SHOUT_TOKEN": "0ther"}
    expected = [
        "~ function shout/loud timeout 30000 ms → 31000 ms; input token changed",
        "~ sequence shout/twice actions /guest/shout/greet → /guest/shout/greet, /guest/shout/hello",
        "~ trigger shout-yearly inputs of its feed changed",
    ]
    planned = world.ok(*deploy, "--dry-run", env=other)
    claim(lines(planned, "+", "~", "-") == expected, planned)
    claim("0ther" in world.ok(*deploy, "--dry-run", "--show-values", env=other).text)
    shown = world.ok(*deploy, "--dry-run", "--json", env=other)
    steps = {step["name"]: step for step in shown.json()["steps"]}
    claim(steps["shout/loud"]["do"] == "update" and steps["shout/hello"]["do"] == "unchanged" and "0ther" not in shown.text, shown)
    done = world.ok(*deploy, env=other)
    claim(lines(done, "+", "~", "-") == expected and "done: 3 changes" in done.text, done)
    claim("8 unchanged" in done.text and "11 unchanged" in world.ok(*deploy, env=other).text)
    claim(world.ok("trigger", "get", "shout-yearly", "--json").json()["feed"]["config"]["cron"] == "0 0 2 1 *")

    # Code is compared by what is in it.
    world.file("shouting/hello.js", HELLO_JS + "// more\n")
    claim([line.split(" code ")[0] for line in lines(world.ok(*deploy, "--dry-run", env=other), "~")] == ["~ function shout/hello"])
    world.file("shouting/hello.js", HELLO_JS)

    # What somebody else changes or makes: seen, and left.
    world.ok("deploy", world.file("mine.js", HELLO_JS), "--name", "shout/mine")
    world.ok("api", "create", "/shout", "/mine", "get", "shout/greet")
    world.ok("rule", "disable", "shout-rule")
    claim(lines(world.ok(*deploy, "--dry-run", env=other), "~") == ["~ rule shout-rule status inactive → active"])
    world.ok(*deploy, env=other)

    smaller = changed.replace("        twice:\n          actions: greet, hello\n", "").replace("            other:\n              greet: GET\n", "")
    smaller = smaller[: smaller.index("        shout-yearly:")] + smaller[smaller.index("      rules:") :]
    world.file("shouting/manifest.yaml", smaller)
    claim("8 unchanged" in world.ok(*deploy, env=other).text, "nothing goes by itself")
    planned = world.ok(*deploy, "--prune", "--dry-run", env=other)
    gone = ["- api get /shout /other deleted", "- trigger shout-yearly deleted", "- sequence shout/twice deleted"]
    claim(lines(planned, "+", "~", "-", "!") == gone, planned)
    done = world.ok(*deploy, "--managed", env=other)
    claim(lines(done, "-") == gone and "done: 3 changes" in done.text, done)
    claim("3 to delete" not in world.ok(*deploy, "--prune", env=other).text)
    world.refused(4, "there is no trigger", arguments=["trigger", "get", "shout-yearly"])
    claim(opened(url)[0] == 404 and opened(url.replace("/other", "/mine"))[0] == 200, "only what the project made is gone")
    claim(world.ok("invoke", "shout/mine", "-p", "name=z").json()["text"] == "hello z")

    # The package is not empty, and stays with what is not the project's.
    planned = world.ok("undeploy", "-f", path, "--dry-run", env=other)
    claim("! package shout kept: an action is left in it" in lines(planned, "!"), planned)
    # It needs the code no more.
    os.rename(world.path("shouting/hello.js"), world.path("shouting/moved.js"))
    world.ok("undeploy", "-f", path, env=other)
    claim(world.ok("invoke", "shout/mine", "-p", "name=z").json()["text"] == "hello z")
    world.refused(4, "there is no function", arguments=["invoke", "shout/hello"])
    for arguments in (["api", "delete", "/shout"], ["package", "delete", "shout", "--force"]):
        world.ok(*arguments)
    claim("nothing to do" in world.ok("undeploy", "-f", path, env=other).text)


def test_a_sequence_stays_until_the_function_that_takes_its_place_is_there(world):
    world.file("turning/hello.js", HELLO_JS)
    world.file("turning/broken.py", "def main(params)\n    return {}\n")
    head = "project:\n  name: turning\n  packages:\n    turning:\n      actions:\n        hello: { function: hello.js }\n"
    path = world.file("turning/manifest.yaml", head + "      sequences: { turned: { actions: hello } }\n")
    world.ok("deploy", "-f", path)
    world.file("turning/manifest.yaml", head + "        turned: { function: broken.py }\n")
    refused = world.run("deploy", "-f", path)
    claim(refused.code != 0 and "function turning/turned" in refused.said, refused)
    claim(world.ok("invoke", "turning/turned").json()["text"] == "hi you", "it is the sequence")
    world.file("turning/manifest.yaml", head + "        turned: { function: hello.js, annotations: { about: me } }\n")
    world.ok("deploy", "-f", path)
    claim("3 unchanged" in world.ok("deploy", "-f", path).text, "nothing of the sequence is left in it")
    claim(world.ok("invoke", "turning/turned", "-p", "name=bo").json()["text"] == "hi bo")
    world.ok("undeploy", "-f", path)


def test_older_manifests_deployment_files_and_values_of_the_command_line(world):
    manifest = """\
package:
  name: older
  version: 1.0
  license: Apache-2.0
  inputs:
    greeting: string
  actions:
    hello:
      location: hello.js
      inputs:
        name: { type: string, description: who, default: nobody }
        count: integer
        object: { a: $WHO, b: [1, '$${WHO}'] }
    zipped:
      function: hello.zip
      runtime: nodejs:default
    inline:
      code: "function main(args) { return { text: `${args.x}` } }"
      runtime: nodejs:default
      inputs: { x: 1 }
    jar:
      function: exec
      native: true
"""
    path = project(world, "older", manifest, **{"exec/exec": "#!/bin/sh\necho '{\"native\": true}'\n"})
    os.chmod(f"{path}/exec/exec", 0o755)
    with zipfile.ZipFile(f"{path}/hello.zip", "w") as archive:
        archive.writestr("index.js", HELLO_JS)
    deployment = world.file("older/deployment.yaml", "packages:\n  older:\n    inputs: { greeting: good day }\n    actions:\n      hello: { inputs: { name: dora } }\n")
    env = {"WHO": "world"}
    deploy = ["deploy", "--manifest", f"{path}/manifest.yaml", "--deployment", deployment]
    done = world.ok(*deploy, "--param", "count=6", env=env)
    claim("5 to create" in done.text, done)
    claim(world.ok("invoke", "older/hello").json() == {"text": "good day dora", "count": 7})
    got = world.ok("get", "older/hello", "--json").json()
    claim({one["key"]: one["value"] for one in got["parameters"]}["object"] == {"a": "world", "b": [1, "${WHO}"]}, got)
    claim(world.ok("invoke", "older/zipped", "-p", "name=z").json()["text"] == "good day z")
    claim(world.ok("invoke", "older/inline").json() == {"text": "1"}, "variables are not looked for in code")
    claim(world.ok("invoke", "older/jar").json() == {"native": True})
    claim("5 unchanged" in world.ok(*deploy, "--param", "count=6", env=env).text)
    claim(lines(world.ok(*deploy, "--dry-run", env=env), "~") == ["~ function older/hello input count changed"])
    world.refused(2, "--param conut", "typing error", arguments=[*deploy, "--param", "conut=6"], env=env)
    world.refused(2, "--prune needs to know", "--project", arguments=[*deploy, "--prune"], env=env)
    # A name makes it a project, and tells whose it is.
    claim("5 to update" in world.ok(*deploy, "--param", "count=6", "--project", "old", env=env).text)
    done = world.ok(*deploy, "--param", "count=6", "--project", "new", "--dry-run", env=env)
    claim("project old → new" in done.text, done)
    claim("5 unchanged" in world.ok(*deploy, "--param", "count=6", env=env).text, "without a name it is left as it is")
    claim("belongs to the project old" in world.ok("undeploy", "-f", path, env=env).text)
    claim("5 to delete" in world.ok("undeploy", "-f", path, "--project", "old", env=env).text)
    world.refused(4, "there is no package", arguments=["package", "get", "older"])


def test_a_deployment_that_fails_half_way_says_so_and_goes_on(world):
    manifest = "project:\n  name: halfway\n  packages:\n    half:\n      actions:\n        one: { function: hello.js }\n        two: { function: broken.js }\n      triggers: { half-t: {} }\n"
    path = project(world, "halfway", manifest, **{"broken.js": "exports.main = (\n"})
    failed = world.refused(4, "function half/two", "2 of 4 changes are done", "run the same command again", arguments=["deploy", "-f", path])
    claim("SyntaxError" in failed.said and "done before it failed: package half, function half/one\n" in failed.text, failed)
    claim(world.ok("invoke", "half/one").json()["text"] == "hi you")
    failed = world.run("deploy", "-f", path, "--json")
    steps = {step["name"]: step for step in failed.json()["steps"]}
    claim(failed.code == 4 and steps["half/two"]["done"] is False and steps["half/one"]["do"] == "unchanged", failed)
    world.file("halfway/broken.js", HELLO_JS)
    done = world.ok("deploy", "-f", path)
    claim(lines(done, "+") == ["+ function half/two new", "+ trigger half-t new"] and "2 unchanged" in done.text, done)
    # A feed that refuses leaves no trigger that nothing fires.
    world.file("halfway/manifest.yaml", manifest.replace("{ half-t: {} }", "{ half-t: {}, half-alarm: { feed: /whisk.system/alarms/alarm, inputs: { cron: never } } }"))
    world.refused(4, "trigger half-alarm", "cron pattern 'never'", arguments=["deploy", "-f", path])
    world.refused(4, "there is no trigger", arguments=["trigger", "get", "half-alarm"])
    world.file("halfway/manifest.yaml", manifest)
    world.ok("undeploy", "-f", path)


def test_a_deployment_that_is_killed_goes_on(world):
    actions = "".join(f"        f{number}: {{ function: hello.js, inputs: {{ count: {number} }} }}\n" for number in range(40))
    manifest = f"project:\n  name: killed\n  packages:\n    killed:\n      actions:\n{actions}      sequences: {{ all: {{ actions: 'f0, f39' }} }}\n"
    path = project(world, "killed", manifest)
    there = lambda: [one["name"] for one in world.ok("list", "--json").json()["functions"] if one["name"].startswith("killed/")]
    deploying = world.start("deploy", "-f", path)
    eventually("a part of it", lambda: len(there()) >= 3)
    deploying.process.kill()
    deploying.process.wait()
    before = len(there())
    done = world.ok("deploy", "-f", path)
    claim(len(lines(done, "=")) >= before and not lines(done, "~", "-"), "what was made is not made again")
    claim(len(there()) == 40 and "42 unchanged" in world.ok("deploy", "-f", path).text)
    claim(world.ok("invoke", "killed/all").json()["count"] == 2)
    world.ok("undeploy", "-f", path)


def test_a_secret_of_a_web_action_is_its_apis_too(world):
    manifest = "packages:\n  safe:\n    actions:\n      page: { function: page.js, web: true, annotations: { require-whisk-auth: $SECRET } }\n    apis:\n      safe-api: { safe: { page: { page: GET } } }\n"
    path = project(world, "safe", manifest, **{"page.js": "exports.main = () => ({ body: 'in' });\n"})
    world.ok("deploy", "-f", path, env={"SECRET": "one"})
    url = next(line.split()[-1] for line in world.ok("api", "list").text.splitlines() if "/safe/page" in line)
    claim(opened(url) == (200, "in") and opened(world.ok("url", "safe/page").text.strip())[0] == 401)
    done = world.ok("deploy", "-f", path, env={"SECRET": "two"})
    claim(lines(done, "~") == ["~ function safe/page annotation require-whisk-auth changed", "~ api get /safe /page secret changed"], done)
    claim(opened(url) == (200, "in") and "3 unchanged" in world.ok("deploy", "-f", path, env={"SECRET": "two"}).text)
    world.ok("undeploy", "-f", path, env={"SECRET": "two"})


def test_a_swagger_document_is_deployed_as_an_api(world):
    document = {
        "swagger": "2.0", "basePath": "/whole", "info": {"title": "Whole", "version": "1"},
        "paths": {"/page": {"get": {"x-openwhisk": {"namespace": "_", "package": "whole", "action": "page"}}}},
    }
    manifest = "project:\n  name: whole\n  config: api.json\n  packages:\n    whole:\n      actions: { page: { function: page.js, web: true } }\n"
    path = project(world, "whole", manifest, **{"page.js": "exports.main = () => ({ body: 'whole' });\n", "api.json": json.dumps(document)})
    world.ok("deploy", "-f", path)
    url = next(line.split()[-1] for line in world.ok("api", "list").text.splitlines() if "/whole/page" in line)
    claim(opened(url) == (200, "whole") and "3 unchanged" in world.ok("deploy", "-f", path).text)
    document["info"]["version"] = "2"
    world.file("whole/api.json", json.dumps(document))
    claim(lines(world.ok("deploy", "-f", path), "~") == ["~ api document /whole document changed"])
    world.file("whole/manifest.yaml", manifest.replace("  config: api.json\n", ""))
    claim(lines(world.ok("deploy", "-f", path, "--prune"), "-") == ["- api document /whole deleted"])
    claim(opened(url)[0] == 404)
    world.ok("undeploy", "-f", path)


def test_bad_manifests_are_refused_before_anything_is_written(world):
    path = project(world, "bad", "")

    def refused(manifest, *parts, code=2, env=None):
        world.file("bad/manifest.yaml", manifest)
        world.refused(code, *parts, arguments=["deploy", "-f", path], env=env)
        claim("bad" not in {package["name"] for package in world.ok("package", "list", "--json").json()}, "something was written")

    head = "packages:\n  bad:\n    actions: { one: { function: hello.js } }\n"
    refused("packages: [\n", "manifest.yaml:", "not YAML")
    refused(head + "    rules: { r: { trigger: nobody, action: one } }\n", "manifest.yaml:4: packages.bad.rules.r", "there is no trigger 'nobody'")
    refused(head + "    sequences: { s: { actions: onne } }\n", "there is no action /guest/bad/onne", "did you mean 'bad/one'?")
    refused(head + "    sequences: { a: { actions: b }, b: { actions: a } }\n", "in a circle: bad/a → bad/b → bad/a")
    refused(head + "    dependencies: { d: { location: 'https://github.com/a/b' } }\n", "fetches no code from elsewhere", "flint deploy -f")
    refused(head + "    dependencies: { d: { location: /whisk.system/none } }\n", "there is no package /whisk.system/none")
    refused(head.replace("hello.js", "hello.jss"), "there is no ", "hello.jss", "relative to the manifest")
    refused(head.replace("hello.js", "hello.js, runtime: 'nodejs:6'"), "no runtime 'nodejs:6'", "nodejs:default")
    refused(head.replace("hello.js", "hello.js, inputs: { t: $BAD_TOKEN }"), "the variable BAD_TOKEN is not set", "--param BAD_TOKEN=")
    refused(head.replace("hello.js", "hello.js, limits: { timeout: soon }"), "limits.timeout", "'soon' is not a time")
    refused(head + "    apis: { a: { b: { c: { one: FETCH } } } }\n", "'fetch' is not a method", "get, put")
    refused(head + "    triggers: { t: { feed: /whisk.system/alarms/allarm } }\n", "there is no action /whisk.system/alarms/allarm")
    refused("a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(f"{c}: &{c} [{', '.join(['*' + p] * 10)}]\n" for p, c in zip("abcdefgh", "bcdefghi")), "more than 100000 values")
    refused(head.replace("function:", "functoin:"), "it has no code", "warning: ", "did you mean 'function'?")
    refused(head.replace("one:", "one/two:"), "cannot be a name")
    refused(head + "    rules: { r: { trigger: x, action: y } }\n    triggers: { t: [] }\n", "it is a list, not a map")
    world.refused(2, "cannot read", "check the path", arguments=["deploy", "-f", f"{path}/none.yaml"])
    world.refused(2, "options for a function", arguments=["deploy", "-f", path, "--memory", "128"])
    world.refused(2, "cannot be used with", arguments=["deploy", f"{path}/hello.js", "-f", path])
    world.refused(3, "no answer from", arguments=["deploy", "-f", path_of_fine(world)], url="http://127.0.0.1:1")


def path_of_fine(world):
    return project(world, "unreached", "packages: { p: { actions: { a: { function: hello.js } } } }\n")


def test_the_sample_project_works(world):
    claim("9 to create" in world.ok("deploy", "-f", SAMPLE, "--prune").text)
    url = next(line.split()[-1] for line in world.ok("api", "list").text.splitlines() if "/guestbook/sign/" in line)
    body = json.dumps({"text": "one two " * 10}).encode()
    request = urllib.request.Request(url.replace("{name}", "ann"), body, {"Content-Type": "application/json"}, method="POST")
    with urllib.request.urlopen(request) as answer:
        entry = json.load(answer)
    claim(entry == {"entry": "Welcome, ann! You wrote: " + "one two " * 6 + "…"}, entry)
    claim("9 unchanged" in world.ok("deploy", "-f", SAMPLE, "--prune").text)
    claim("9 to delete" in world.ok("undeploy", "-f", SAMPLE).text)
    claim("nothing to do" in world.ok("undeploy", "-f", SAMPLE).text)


def test_a_package_that_is_too_large_to_be_shown_is_deployed_into(world):
    manifest = "packages:\n  vast:\n    inputs: { a: 1 }\n    actions:\n      hello:\n        function: hello.js\n"
    path = project(world, "vast", manifest)
    world.ok("deploy", "-f", path)
    world.file("vast-code/index.js", HELLO_JS)
    world.file("vast-code/flint.toml", f"[annotations]\nlong = '{'x' * 900_000}'\n")
    for n in range(10):
        world.ok("deploy", world.path("vast-code"), "--name", f"vast/more-{n}", "--start", "spawn")
    world.refused(4, "larger than allowed", arguments=["package", "get", "vast"])
    world.file("vast/manifest.yaml", manifest.replace("a: 1", "a: 2"))
    done = world.ok("deploy", "-f", path)
    claim("1 to update, 1 unchanged" in done.text and lines(done, "~")[0].startswith("~ package vast"), done)
    world.ok("package", "delete", "vast", "--force")
