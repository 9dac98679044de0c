"""The shims and the interpreters that this machine has for them."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

RUNTIMES = Path(__file__).resolve().parent.parent
FUNCTIONS = Path(__file__).resolve().parent / "functions"
LANGUAGES = ("nodejs", "python", "java")
JVM_FLAGS = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djdk.reflect.useNativeAccessorOnly=true",
             "-Xlog:disable", "-Xlog:all=error:stderr"]
JVM_OPENS = ["--add-opens", "java.base/java.io=ALL-UNNAMED", "--add-opens", "java.base/java.util=ALL-UNNAMED"]


class Shim:
    """One shim under one interpreter. `thrown`: what an exception in a handler becomes, `result` or `developer`.
    `zygote`: how it is started to be forked, None where it cannot be."""

    def __init__(self, language, version, argv, thrown, compiled=None, zygote=None):
        self.language, self.version, self.argv, self.thrown = language, version, argv, thrown
        self.zygote = zygote
        self.compiled = compiled
        self.name = f"{language} {version}"

    def probe(self):
        return self._function("probe")

    def broken(self):
        return self._function("broken")

    def forked(self):
        return self._function("forked")

    def _function(self, name):
        if self.language == "java":
            return str(self.compiled), name.capitalize()
        return str(FUNCTIONS / f"{name}.{'js' if self.language == 'nodejs' else 'py'}"), "main"

    def sample(self, scratch):
        """A function for measurements: takes {"name"}, returns {"greeting"}."""
        return {"nodejs": self._source(scratch, "hello.js", "exports.main = (params) => ({ greeting: `Hello ${params.name}` });\n"),
                "python": self._source(scratch, "hello.py", "def main(params):\n    return {'greeting': 'Hello ' + params['name']}\n"),
                "java": (str(self.compiled), "Hello")}[self.language]

    @staticmethod
    def _source(scratch, name, text):
        (scratch / name).write_text(text)
        return str(scratch / name), "main"

    def variants(self):
        """(name, argv) of each way to start it; for Java also with an archive of its classes."""
        yield self.name, self.argv
        if self.language != "java":
            return
        java, jar = self.argv[0], self.argv[self.argv.index("-cp") + 1]
        archive = str(self.compiled.parent / f"shim-{self.version}")
        dump, use = (["-XX:AOTCacheOutput=" + archive], ["-XX:AOTCache=" + archive]) if int(self.version.split(".")[0]) >= 25 else (
            ["-XX:ArchiveClassesAtExit=" + archive], ["-Xshare:auto", "-XX:SharedArchiveFile=" + archive])
        subprocess.run([java, *JVM_FLAGS, *JVM_OPENS, *dump, "-cp", jar, "flint.Train"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        yield f"{self.name} archive", [java, *use, *self.argv[1:]]


def found(scratch, languages=(), report=print):
    """Every shim that can run here; what is missing is said through `report`."""
    for language in languages or LANGUAGES:
        shims = list({"nodejs": _nodejs, "python": _python, "java": _java}[language](scratch, report))
        if not shims:
            report(f"{language}: no interpreter found, its shim is not tested")
        yield from shims


def report_missing(report=print):
    """Says which of the supported versions this machine lacks."""
    minors = {version.split(".")[1] for version, _ in pythons()}
    releases = {version.split(".")[0] for version, _ in jdks()}
    missing = [f"python 3.{minor}" for minor in range(9, 15) if str(minor) not in minors]
    missing += [f"JDK {release}" for release in ("17", "25") if release not in releases]
    if missing:
        report(f"not found here, not tested: {', '.join(missing)}")


def loops(report=print):
    """Languages whose launchers speak ActionLoop, as far as they are here."""
    here = [language for language in ("php", "ruby") if shutil.which(language)]
    for language in {"php", "ruby"} - set(here):
        report(f"not found here, not tested: {language}")
    return here


def _run(*argv):
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def _on_path(name):
    return [os.path.join(folder, name) for folder in os.get_exec_path() if os.path.isfile(os.path.join(folder, name))]


def _newest_of_each(candidates, version_of, key_of):
    """One interpreter for each key, the newest, in order of version."""
    best = {}
    for path in candidates:
        version = version_of(path)
        if version and (key_of(version) not in best or best[key_of(version)][0] < version):
            best[key_of(version)] = (version, path)
    return [(".".join(map(str, version)), path) for version, path in sorted(best.values())]


def _version(text, pattern):
    match = re.search(pattern, text)
    return tuple(int(part) for part in match.group(1).split(".")) if match else None


def _nodejs(scratch, report):
    laid_out = None if scratch is None else _with_native_helper(scratch, report)
    homes = [Path.home() / ".nvm/versions/node", Path("/opt/nodejs")]
    if os.environ.get("FLINT_TEST_RELEASES"):  # what ../../tests/runtimes has fetched; takes some minutes a release
        homes.append(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "flint-runtimes/node")
    candidates = _on_path("node") + [str(path) for home in homes for path in home.glob("*/bin/node")]
    for version, node in _newest_of_each(candidates, lambda path: _version(_run(path, "--version"), r"v(\d+\.\d+\.\d+)"), lambda v: v[0]):
        if int(version.split(".")[0]) < 18:
            report(f"nodejs {version} is older than 18, not tested")
            continue
        zygote = None if laid_out is None else ["env", f"LD_PRELOAD={laid_out / 'native/zygote.node'}", node, *_zygote_flags(), str(laid_out / "shim.js")]
        yield Shim("nodejs", version, [node, str(RUNTIMES / "nodejs/shim.js")], "developer", zygote=zygote)


def _zygote_flags():
    return json.loads((RUNTIMES / "nodejs/flags.json").read_text())["zygote"]


def _with_native_helper(scratch, report):
    """The Node.js shim as Flint lays it out, with its native helper; None without a C compiler."""
    laid_out = scratch / "nodejs"
    shutil.copytree(RUNTIMES / "nodejs", laid_out)
    shutil.copytree(RUNTIMES / "native", scratch / "native", dirs_exist_ok=True)
    try:
        subprocess.run([str(laid_out / "native/build.sh"), str(laid_out / "native/zygote.node")], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        report(f"nodejs: its native helper cannot be built, zygotes are not tested: {error}")
        return None
    return laid_out


def pythons(managers=()):
    """(version, path) of every CPython ≥ 3.9; `managers`: further folders in which version managers keep them."""
    candidates = [path for minor in range(9, 20) for path in _on_path(f"python3.{minor}")] + _on_path("python3")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates += [str(path) for folder in [pyenv / "versions", *managers] for path in folder.glob("*/bin/python3")]
    ask = "import sys; print('v%d.%d.%d' % sys.version_info[:3])"
    all_of_them = _newest_of_each(candidates, lambda path: _version(_run(path, "-c", ask), r"^v(\d+\.\d+\.\d+)"), lambda v: v[:2])
    return [(version, path) for version, path in all_of_them if int(version.split(".")[1]) >= 9]


def _python(scratch, report):
    helper = None if scratch is None else scratch / "zygote.so"
    if helper is not None and subprocess.run([str(RUNTIMES / "python/native/build.sh"), str(helper)]).returncode != 0:
        report("python: its native helper cannot be built, zygotes are tested without it")
    for version, python in pythons():
        argv = [python, "-X", "utf8", "-s", str(RUNTIMES / "python/shim.py")]
        yield Shim("python", version, argv, "result", zygote=["env", f"FLINT_ZYGOTE_HELPER={helper}", *argv])


def jdks():
    """(version, home) of every JDK ≥ 17."""
    homes = [os.path.dirname(os.path.dirname(os.path.realpath(path))) for path in _on_path("javac")]
    homes += [os.environ["JAVA_HOME"]] if "JAVA_HOME" in os.environ else []
    homes += [str(path.parent.parent.resolve()) for path in Path("/usr/lib/jvm").glob("*/bin/javac")]
    all_of_them = _newest_of_each(homes, lambda home: _version(_run(home + "/bin/java", "-version"), r'version "(\d+(?:\.\d+)*)'), lambda v: v[0])
    return [(version, home) for version, home in all_of_them if int(version.split(".")[0]) >= 17]


def _java(scratch, report):
    have = jdks()
    if not have:
        return
    home = have[0][1]  # the oldest builds what all run
    subprocess.run([str(RUNTIMES / "java/build.sh"), str(scratch)], check=True, env=dict(os.environ, JAVA_HOME=home))
    jar, classes = scratch / "flint-runtime.jar", scratch / "functions"
    sources = [str(path) for path in sorted((FUNCTIONS / "java").glob("*.java"))]
    subprocess.run([f"{home}/bin/javac", "--release", "17", "-encoding", "UTF-8", "-cp", str(jar), "-d", str(classes), *sources], check=True)
    for version, jdk in have:
        yield Shim("java", version, [jdk + "/bin/java", *JVM_FLAGS, *JVM_OPENS, "-cp", str(jar), "flint.Shim"], "developer", compiled=classes)
