"""The server's life: start, stop, what is in its way, configuration, doctor."""

import base64
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import time

from harness import Server, claim, eventually, fetch, free_port

GUEST = "23bc46b1-71f6-4ed5-8c54-816aa4f8c502:123zO3xZCLrMN6v2BKK1dXYFpXlPkccOFqm12CdAsMgRU4VrNZ9lyGVCGuMDGIwP"


# A call that still waits for its instance when the server stops is refused: it can be made again.
RUNS = b'flint_instances{state="busy"} 1\n'


def test_doctor_says_what_runs(world):
    done = world.bare("doctor")
    claim(done.code == 0 and "Functions can run on this host." in done.text and "nodejs" in done.text, done)
    report = world.bare("doctor", "--json").json()
    claim(report["ok"] and report["runtimes"] and report["abilities"], report)
    claim(world.ok("doctor", "--remote", "--json").json()["ok"], "the server says the same of its host")


def test_more_callers_than_a_shell_allows_open_files(world):
    """Shells and service managers allow 1,024, and each caller is one: the server raises its limit, which it inherits here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    claim(hard > 1024, f"this needs a hard limit of more than 1,024 open files, which is {hard} here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    try:
        server = Server(world, world.path("many-callers"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        callers = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(1500)]
        try:
            callers[-1].settimeout(60)
            callers[-1].sendall(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            claim(b" 200 " in callers[-1].recv(4096).split(b"\r\n")[0], server.log())
        finally:
            for caller in callers:
                caller.close()
    finally:
        server.stop()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_idle_connections_leave_functions_the_open_files_they_need(world):
    """Without a key anybody can open them. The limit is a hard one here: the server has no right to exceed it."""
    humbled = ["setpriv", "--bounding-set", "-sys_resource", "--inh-caps", "-sys_resource"] if os.geteuid() == 0 else []
    # None of them is let go for its silence, however long it takes to open so many.
    silent = ["--set", "server.header_timeout=10min"]
    server = Server(world, world.path("idle-callers"), *silent, before=[*humbled, "prlimit", "--nofile=600:600"])
    idle, functions = [], {"slow": "await new Promise((done) => setTimeout(done, 8000));", **{f"cold{n}": "" for n in range(5)}}
    try:
        fewer = "200 instead of 8192 (server.max_connections) and 100 instead of 4096 (gate.max_connections)"
        eventually("the log says so", lambda: fewer in server.log())
        doctor = world.run("doctor", "--remote", "--json", url=server.url).json()
        claim(any(ability["name"] == "connections" for ability in doctor["abilities"]), doctor)
        for name, work in functions.items():
            path = world.file(f"idle/{name}.js", f"exports.main = async () => {{ {work} return {{ name: '{name}' }}; }};")
            world.ok("deploy", path, "--start", "spawn", url=server.url)
        # Whose call runs keeps the connection; who comes later gets one, for which an idle one is ended.
        callers = {name: http.client.HTTPConnection("127.0.0.1", server.port, timeout=60) for name in functions}
        call(callers["slow"], "slow")
        idle = [socket.socket() for _ in range(700)]
        for connection in idle:
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", server.port))
            time.sleep(0.002)  # The kernel lets few wait to be accepted.
        time.sleep(1)
        for name in functions:
            if name != "slow":
                call(callers[name], name)
        for name, caller in callers.items():
            answer = caller.getresponse()
            body = answer.read()
            claim(answer.status == 200 and json.loads(body) == {"name": name}, f"{name}: {answer.status} {body}\n{server.log()}")
    finally:
        for connection in idle:
            connection.close()
        server.stop()


def call(caller, name):
    """Asks for a result that is read later."""
    key = base64.b64encode(GUEST.encode()).decode()
    path = f"/api/v1/namespaces/_/actions/{name}?blocking=true&result=true"
    caller.request("POST", path, body="{}", headers={"authorization": f"Basic {key}", "content-type": "application/json"})


def test_config_lists_every_key_with_its_origin(world):
    file = world.file("flint.toml", "[pool]\nkeep_alive = '5min'\n[log]\nfilter = 'warn'\n")
    environment = world.environment({"FLINT_LIMITS__FIRES_PER_MINUTE": "7", "FLINT_LOG__FILTER": "error"})
    done = world.bare("config", "--config", file, "--set", "limits.concurrent_invocations=9", "--json", environment=environment)
    keys = {entry["key"]: entry for entry in done.json()}
    claim(keys["pool.keep_alive"]["value"] == "5min" and keys["pool.keep_alive"]["source"].endswith("flint.toml"), keys["pool.keep_alive"])
    claim(keys["log.filter"]["value"] == "error" and keys["log.filter"]["source"] == "FLINT_LOG__FILTER", keys["log.filter"])
    claim(keys["limits.fires_per_minute"]["value"] == 7 and keys["limits.concurrent_invocations"]["value"] == 9)
    claim(keys["limits.max_memory"]["source"] == "default" and all(entry["meaning"] for entry in keys.values()))
    text = world.bare("config", "pool").text
    claim("pool.keep_alive" in text and "server.listen" not in text, text)


def test_completions_are_printed(world):
    for shell in ("bash", "zsh", "fish"):
        claim("flint" in world.bare("completions", shell).text)


def test_kinds_to_prewarm_that_are_not_there_are_named(world):
    server = Server(world, world.path("prewarm-kinds"), "--set", 'pool.prewarm_kinds=["cobol", "nodejs"]')
    said = eventually("the log names it", lambda: "pool.prewarm_kinds" in server.log() and server.log())
    claim("kind=cobol" in said and "kind=nodejs" not in said, said)
    server.stop()


def test_too_little_address_space_is_named(world):
    data = world.path("narrow-space")

    def limited(kilobytes, *arguments):
        script = f'ulimit -v {kilobytes}; exec "$0" "$@"'
        return subprocess.run(["sh", "-c", script, world.flint, *arguments], capture_output=True, text=True, env=world.environment())

    done = limited(2000000, "up", "--listen", "127.0.0.1:0", "--data-dir", str(data))
    claim(done.returncode == 5 and "1.9 GB of address space" in done.stderr and "ulimit -v" in done.stderr, done)
    claim("panicked" not in done.stderr and not data.exists(), done)
    done = limited(8000000, "doctor", "--json")
    named = [ability for ability in json.loads(done.stdout)["abilities"] if ability["name"] == "address-space"]
    claim(named and "7.6 GB" in named[0]["detail"] and "panicked" not in done.stderr, done)


def test_a_busy_port_is_named(world):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        data = world.path("never-made")
        done = world.bare("up", "--listen", f"127.0.0.1:{port}", "--data-dir", data)
        claim(done.code == 5 and f"port {port} is in use" in done.said and "--listen" in done.said, done)
        claim(not data.exists(), "nothing is left of a start that failed")


def test_a_second_server_on_the_same_data_is_refused(world):
    server = world.server
    done = world.bare("up", "--listen", f"127.0.0.1:{free_port()}", "--data-dir", server.data_dir)
    claim(done.code == 5 and "in use by another Flint server" in done.said and str(server.process.pid) in done.said, done)
    claim(world.ok("list").code == 0, "the first one goes on")


def test_wrong_addresses_and_keys_are_refused(world):
    for arguments, code, part in [
        (["up", "--listen", "nonsense"], 2, "not an address"),
        (["up", "--listen", "127.0.0.1:99999"], 2, "not an address"),
        (["up", "--set", "server.lisen=x"], 2, "server.listen"),
        (["up", "--set", "log.filter=flint=loudest"], 2, "log.filter"),
        (["up", "--data-dir", "/proc/flint"], 5, "/proc/flint"),
    ]:
        done = world.bare(*arguments)
        claim(done.code == code and part in done.said, done)


def test_sigterm_lets_running_calls_end(world):
    server = Server(world, world.path("drain-data"))
    slow = "exports.main = () => new Promise((done) => setTimeout(() => done({ finished: true }), 5000));\n"
    world.ok("deploy", world.file("slow.js", slow), url=server.url)
    calling = under_way(world, server)
    server.signal(signal.SIGTERM)
    claim(server.wait() == 0, server.log())
    calling.process.wait(120)
    claim(calling.process.returncode == 0 and "finished" in calling.text(), calling.text(), server.log())


def under_way(world, server):
    """A call of `slow` that runs, and is the only one."""
    eventually("no call runs", lambda: RUNS not in fetch(f"{server.url}/metrics"))
    while True:
        calling = world.start("invoke", "slow", url=server.url)
        eventually("the call runs", lambda: RUNS in fetch(f"{server.url}/metrics") or calling.process.poll() is not None)
        if calling.process.poll() is None:  # else it was over before it was seen
            return calling


def test_a_second_signal_stops_at_once(world):
    server = Server(world, world.path("twice-data"), "--set", "limits.max_timeout=10min", "--set", "server.drain_timeout=10min")
    world.ok("deploy", world.file("forever.js", "exports.main = () => new Promise(() => setInterval(() => {}, 1000));\n"), "--timeout", "5m", url=server.url)
    calling = world.start("invoke", "forever", url=server.url)
    eventually("the call runs", lambda: RUNS in fetch(f"{server.url}/metrics"))
    server.signal(signal.SIGINT)
    eventually("it waits for the call", lambda: "stopping: running calls have" in server.log())
    server.signal(signal.SIGINT)
    # Far less than it would wait for the call.
    server.wait()
    calling.process.wait(120)
    claim(calling.process.returncode != 0, calling.text())


def test_a_log_that_nobody_reads_stops_nothing(world):
    """The reader of its stderr goes away, or stays and does not read: everything goes on, and running calls end before the server does."""
    slow = world.file("unread/slow.js", "exports.main = () => new Promise((done) => setTimeout(() => done({ finished: true }), 5000));\n")
    for reader in ("gone", "asleep"):
        reading, writing = os.pipe()
        server = Server(world, world.path(f"unread-{reader}"), "--set", "log.filter=debug", stderr=writing)
        os.close(writing)
        try:
            if reader == "gone":
                os.close(reading)
            else:
                fill(reading)
            world.ok("deploy", slow, url=server.url)
            accepted = world.ok("invoke", "slow", "--async", url=server.url).text.strip()
            eventually("the record is there", lambda: accepted in world.run("activations", "--json", url=server.url).text)
            calling = under_way(world, server)
            claim(json.loads(fetch(f"{server.url}/ready"))["status"] == "ok")
            if reader == "gone":
                claim(b"flint_log_lines_dropped_total 0\n" not in fetch(f"{server.url}/metrics"), "lines that cannot be written are counted")
            server.signal(signal.SIGTERM)
            claim(server.wait() == 0, f"{reader}: {server.log()}")
            calling.process.wait(120)
            claim(calling.process.returncode == 0 and "finished" in calling.text(), reader, calling.text())
        finally:
            if reader != "gone":
                os.close(reading)


def fill(reading):
    """Leaves no room in a pipe."""
    pipe = os.open(f"/proc/self/fd/{reading}", os.O_WRONLY | os.O_NONBLOCK)
    try:
        while True:
            os.write(pipe, b"." * 4096)
    except BlockingIOError:
        pass
    finally:
        os.close(pipe)


def test_health_ready_metrics_and_the_description_answer(world):
    url = world.server.url
    claim(json.loads(fetch(f"{url}/health"))["status"] == "ok")
    claim(json.loads(fetch(f"{url}/ready"))["status"] == "ok")
    claim(b"flint_activations" in fetch(f"{url}/metrics"))
    claim("/v1/functions/{name}/invoke" in json.loads(fetch(f"{url}/v1/openapi.json"))["paths"])


def test_what_is_refused_before_a_front_sees_it_is_counted(world):
    import urllib.error
    import urllib.request

    url = world.server.url
    for path, front, headers, status in [
        ("/v1/functions", "native", {"origin": "https://example.com"}, 403),
        ("/v1/functions", "native", {"x-long": "x" * 70_000}, 431),
        ("/api/v1", "openwhisk", {"origin": "https://example.com", "authorization": "Basic YTpi"}, 403),
    ]:
        series = f'flint_http_requests_total{{front="{front}",status="{status}"}} '
        before = counted(url, series)
        try:
            urllib.request.urlopen(urllib.request.Request(f"{url}{path}", headers=headers), timeout=60)
            claim(False, f"it is refused: {status}")
        except urllib.error.HTTPError as refused:
            claim(refused.code == status, refused.code)
        claim(counted(url, series) > before, series)


def counted(url, series):
    lines = fetch(f"{url}/metrics").decode().splitlines()
    return next((int(line[len(series):]) for line in lines if line.startswith(series)), 0)
