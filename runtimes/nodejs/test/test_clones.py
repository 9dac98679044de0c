"""What is particular to clones of Node.js; what all languages have in common is in ../../conformance/test_zygote.py."""

import collections
import json
import os
import re
import signal
import sys
import tempfile
import time
import unittest
from pathlib import Path

RUNTIMES = Path(__file__).resolve().parents[2]
FUNCTIONS = Path(__file__).resolve().parent / "functions"
sys.path.insert(0, str(RUNTIMES / "conformance"))

import outside  # noqa: E402
import shims  # noqa: E402
from peer import with_head  # noqa: E402
from zygote import Zygote  # noqa: E402

CLONES = 500


class Clones:
    shim = None

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.zygotes = []
        self.clones = []
        self.addCleanup(self._end)

    def _end(self):
        for clone in self.clones:
            clone.end()
        for zygote in self.zygotes:
            zygote.close()

    def zygote(self, code, name="index.js", argv=None):
        """`code`: a file of functions/, or the text of one."""
        path = code if isinstance(code, Path) else Path(self.folder.name) / name
        if path is not code:
            path.write_text(code)
        zygote = Zygote(argv or self.shim.zygote, dict(os.environ, TMPDIR=self.folder.name))
        self.zygotes.append(zygote)
        self.hello = zygote.start(path)
        return zygote

    def frozen(self, *args, **kwargs):
        zygote = self.zygote(*args, **kwargs)
        zygote.freeze()
        return zygote

    def clone(self, zygote, **kwargs):
        clone = zygote.clone(**kwargs)
        self.clones.append(clone)
        return clone

    # --- the asynchronous battery

    def battery(self, warm):
        zygote = self.zygote(FUNCTIONS / "battery.js")
        cases = zygote.invoke({"cases": True}).json()["cases"]
        self.assertGreaterEqual(len(cases), 24)
        if warm:
            for case in cases:
                self.assertEqual(zygote.warm_up({"case": case}).json(), {"ok": True}, case)
        zygote.freeze(calls=len(cases))
        for number, case in enumerate(cases):
            with self.subTest(case):
                clone = self.clone(zygote, prime=number % 2 == 0)
                self.assertEqual(clone.invoke({"case": case}).json(), {"ok": True})

    def test_battery(self):
        self.battery(warm=False)

    def test_battery_after_everything_in_it_was_used_before_the_freeze(self):
        self.battery(warm=True)

    def test_the_whole_battery_in_one_clone(self):
        zygote = self.frozen(FUNCTIONS / "battery.js")
        clone = self.clone(zygote)
        for case in clone.invoke({"cases": True}).json()["cases"]:
            self.assertEqual(clone.invoke({"case": case}).json(), {"ok": True}, case)

    # --- /tmp

    def leaving(self, more=""):
        """A zygote whose code leaves something in its /tmp, which is descriptor 200."""
        place = Path(tempfile.mkdtemp(dir=self.folder.name))
        begin = "import os, sys; os.dup2(os.open(sys.argv[1], os.O_RDONLY), 200); os.execvp(sys.argv[2], sys.argv[2:])"
        return self.zygote(f"""
            const fs = require('fs');
            const place = {json.dumps(str(place))};
            fs.mkdirSync(`${{place}}/folder/inner`, {{ recursive: true, mode: 0o700 }});
            fs.writeFileSync(`${{place}}/folder/inner/file`, 'text');
            fs.writeFileSync(`${{place}}/script`, '#!/bin/sh', {{ mode: 0o755 }});
            fs.writeFileSync(`${{place}}/removed`, '');
            fs.symlinkSync('/tmp/folder', `${{place}}/link`);
            fs.symlinkSync(Buffer.from('gone\\xff', 'latin1'), Buffer.from(`${{place}}/folder/\\xfe`, 'latin1'));
            fs.writeFileSync(Buffer.from(`${{place}}/folder/\\xff`, 'latin1'), 'bytes');
            fs.mkdirSync(`${{place}}/replaced/inner`, {{ recursive: true }});
            {more}
            exports.main = () => {{
              fs.rmSync(`${{place}}/removed`, {{ force: true }});
              fs.rmSync(`${{place}}/replaced`, {{ force: true, recursive: true }});
              fs.symlinkSync(`${{place}}/folder`, `${{place}}/replaced`);
              fs.writeFileSync(`${{place}}/of-a-call`, '');
              return {{}};
            }};""", argv=[sys.executable, "-c", begin, str(place), *self.shim.zygote])

    def test_a_clone_finds_what_loading_leaves_in_tmp(self):
        for warm, removed in (False, ["removed", "replaced/inner"]), (True, []):
            zygote = self.leaving()
            if warm:
                zygote.warm_up().json()
            zygote.freeze()
            clone = self.clone(zygote, prime=warm)
            found = {path.relative_to(clone.tmp.name).as_posix(): path for path in Path(clone.tmp.name).rglob("*")}
            self.assertEqual(sorted(found), sorted(["folder", "folder/inner", "folder/inner/file", "folder/\udcfe", "folder/\udcff", "link", "replaced", "script", *removed]))
            self.assertEqual((found["folder/\udcff"].read_text(), os.readlink(found["folder/\udcfe"])), ("bytes", "gone\udcff"))
            self.assertEqual(found["folder/inner/file"].read_text(), "text")
            self.assertEqual([found[name].stat().st_mode & 0o777 for name in ("script", "folder/inner")], [0o755, 0o700])
            self.assertEqual(os.readlink(found["link"]), "/tmp/folder")
            self.assertEqual(clone.invoke().json(), {})

    def test_more_than_a_copy_is_given_in_tmp_is_in_the_way(self):
        for more in ("fs.writeFileSync(`${place}/large`, Buffer.alloc(2 ** 21));", "for (let n = 0; n < 300; n++) fs.writeFileSync(`${place}/${n}`, '');"):
            message = self.leaving(more).refusal()
            self.assertIn("loading the code leaves more in /tmp than the 1 MiB and 256 files that each copy is given (/tmp/", message)
            self.assertIn("write it in flint.afterRestore", message)

    # --- practice

    def test_no_users_handler_undoes_what_practice_has_optimised(self):
        """V8 throws optimised code away that has bet on what practice happened to show it; a clone then runs for thousands of calls without."""
        handlers = {
            "sync": "(params) => ({ zebra: params.name, quagga: 1 })",
            "array": "() => [{ okapi: true }, 2.5]",
            "async": "async (params, context) => ({ statusCode: 404, body: params.name, headers: { id: context.activationId } })",
            "late": "(params) => new Promise((resolve) => { setImmediate(resolve, { tapir: params }); })",
        }
        http = {"method": "GET", "path": "/a", "query": "b=c", "headers": [["accept", "*/*"]]}
        heads = [{"transaction": "t", "apiKey": "k"}, {"transaction": "t"}, {**http, "transaction": "t"}]
        flags = ["--trace-opt", "--trace-deopt"]
        # What `late` has Node.js itself optimise, when it is warmed up, is undone by its first wait.
        for name, warm in [*((name, False) for name in handlers), ("sync", True), ("async", True)]:
            with self.subTest(name, warm=warm):
                zygote = self.zygote(f"exports.main = {handlers[name]};", argv=[*self.shim.zygote[:-1], *flags, self.shim.zygote[-1]])
                if warm:
                    zygote.warm_up({"name": "value"}, transaction="t").json()
                zygote.freeze(calls=2000, budgetMs=60000, annotate=True)
                optimised = "arrived|onInvoke|run|handle" if warm else "handle"
                self.assertRegex(zygote.stdout, rf"(completed compiling|optimizing) .*<JSFunction ({optimised})\b")
                clone = self.clone(zygote, prime=True, restore=False)
                clone.restore(once=False)
                for number in range(60):
                    clone.invoke({"name": "value"}, **heads[number % 3])
                self.assertNotIn("bailout", clone.stdout)

    def test_functions_are_compiled_before_the_freeze_and_not_in_each_clone(self):
        """Also without a warm-up; of dependencies, and with no budget, nothing is."""
        code = """
            const dependency = require('dependency');
            let ran = 0;
            function helper(a) { ran += 1; return a + 1; }
            class Thing { method() { return helper(2); } }
            const traps = new Proxy({}, new Proxy({}, { get() { ran += 1; } }));
            const getters = { get one() { ran += 1; return 1; } };
            const child = Object.create(new Proxy({}, { getPrototypeOf() { ran += 1; return null; } }));
            exports.main = async function handler() { return { n: new Thing().method(), ran, d: dependency(), traps: typeof traps, getters: typeof getters, child: typeof child }; };
        """
        package = Path(self.folder.name) / "node_modules" / "dependency"
        package.mkdir(parents=True)
        (package / "index.js").write_text("module.exports = function dependency() { return 1; };")
        flags = ["--log-function-events", "--logfile=-", "--no-logfile-per-isolate"]
        for budget, compiled in (10000, {"dependency"}), (0, {"handler", "helper", "method", "dependency"}):
            with self.subTest(budget=budget):
                zygote = self.zygote(code, argv=[*self.shim.zygote[:-1], *flags, self.shim.zygote[-1]])
                self.assertEqual(zygote.freeze(budgetMs=budget)["notes"], [])
                clone = self.clone(zygote, prime=True)
                for _ in range(2):
                    answer = clone.invoke({}, transaction="t").json()
                self.assertEqual(answer, {"n": 3, "ran": 2, "d": 1, "traps": "object", "getters": "object", "child": "object"})
                clone.end()
                found = set(re.findall(r"^function,parse-function,(?:[\w.]+,)*(\w+)$", clone.stdout, re.MULTILINE))
                self.assertEqual(found & {"handler", "helper", "method", "dependency"}, compiled)
                if budget > 0:
                    self.assertFalse(found & {"serveFromEventLoop", "watch"})

    def test_practice_waits_for_promises_of_the_users_own(self):
        zygote = self.frozen("""global.Promise = class extends Promise {
          then(done, failed) { setImmediate(() => super.then(done, failed)); return this; }
        };
        exports.main = async (params) => params;""")
        clone = self.clone(zygote)
        for number in range(3):
            self.assertEqual(clone.invoke({"n": number}).json(), {"n": number})

    def test_what_a_warm_up_enters_stays_in_it(self):
        zygote = self.zygote("""const storage = new (require('async_hooks').AsyncLocalStorage)();
        exports.main = ({ n }) => { const before = storage.getStore() || null; storage.enterWith(n); return { before, after: storage.getStore() }; };""")
        zygote.warm_up({"n": 1}).json()
        zygote.freeze()
        clone = self.clone(zygote)
        for number in range(2, 5):
            self.assertEqual(clone.invoke({"n": number}).json(), {"before": None, "after": number})

    # --- uniqueness

    def values(self, warm_ups):
        zygote = self.zygote(FUNCTIONS / "values.js")
        for _ in range(warm_ups):
            zygote.warm_up().json()
        zygote.freeze(calls=warm_ups)
        seen = collections.defaultdict(set)
        for number in range(CLONES):
            clone = zygote.clone(prime=number % 2 == 0)
            values = clone.invoke().json()
            clone.end()
            for name, value in values.items():
                seen[name].add(value)
            self.assertEqual(values["pid"], clone.pid)
            self.assertGreater(values["uptime"], 0)
            self.assertLess(abs(values["alsoNow"]), 1000, "timeOrigin + now() is not the time of day")
        # The number of a process that has ended may be given again.
        for name in ("alsoNow", "uptime", "now", "pid"):
            del seen[name]
        self.assertEqual({name: len(values) for name, values in seen.items()}, {name: CLONES for name in seen})

    def test_what_was_cached_in_the_warm_up_grows_older(self):
        zygote = self.frozen("""const { performance } = require('perf_hooks');
        const { now } = performance;
        const stored = [performance.now(), performance.timeOrigin, now.call(performance)];
        exports.main = () => ({ ages: [performance.now() - stored[0], now.call(performance) - stored[2]], moved: performance.timeOrigin - stored[1], uptime: process.uptime() * 1000 });""")
        time.sleep(0.05)
        seen = self.clone(zygote).invoke().json()
        self.assertGreaterEqual(min(seen["ages"]), 50)
        self.assertEqual(seen["moved"], 0)
        self.assertLess(seen["uptime"], min(seen["ages"]))

    def test_500_clones_have_500_values_of_each(self):
        self.values(warm_ups=3)

    def test_500_clones_of_a_zygote_that_was_not_warmed_up(self):
        self.values(warm_ups=0)

    def test_entropy_decides_math_random(self):
        zygote = self.frozen("exports.main = () => ({ values: Array.from({ length: 5 }, Math.random) });")
        drawn = []
        for entropy in (b"\1" * 32, b"\1" * 32, b"\1" * 31 + b"\2", b"\0" * 32):
            clone = self.clone(zygote, restore=False)
            clone.restore(entropy)
            drawn.append(tuple(clone.invoke().json()["values"]))
        self.assertEqual(drawn[0], drawn[1])
        self.assertEqual(len(set(drawn)), 3)
        self.assertTrue(all(0 <= value < 1 for values in drawn for value in values))

    def test_a_context_may_be_given_a_math_of_its_own(self):
        zygote = self.frozen("""const vm = require('vm');
        const [own, none, ours] = [{ floor: Math.floor, random: () => 4.5 }, null, Math].map((Math) => vm.createContext({ Math }));
        exports.main = () => ({ own: vm.runInContext('Math.floor(Math.random())', own), none: vm.runInContext('Math', none),
          ours: vm.runInContext('Math', ours) === Math && Math.random instanceof Function });""")
        self.assertEqual(self.clone(zygote).invoke().json(), {"own": 4, "none": None, "ours": True})

    def test_random_functions_check_their_arguments_as_ever(self):
        code = """const crypto = require('crypto');
        const tries = [() => crypto.randomInt(), () => crypto.randomInt(5, 5), () => crypto.randomInt(1.5), () => crypto.randomInt(0, 2 ** 48),
          () => crypto.randomInt(1, 2, 3), () => crypto.randomUUID(5), () => crypto.randomUUID(null), () => crypto.randomUUID({ disableEntropyCache: 1 }), () => crypto.randomFillSync([])];
        exports.main = () => ({ codes: tries.map((attempt) => { try { return attempt(); } catch (error) { return error.code; } }),
          fine: [crypto.randomInt(1), crypto.randomInt(3, 4), crypto.randomInt(-4, -3), crypto.randomUUID({}).length] });"""
        zygote = self.zygote(code)
        before = zygote.invoke().json()
        zygote.freeze()
        self.assertEqual(self.clone(zygote).invoke().json(), before)
        self.assertEqual(before["fine"], [0, 3, -4, 36])
        self.assertNotIn(None, before["codes"])

    def test_secrets_drawn_at_load_are_noted(self):
        zygote = self.zygote("const key = require('crypto').randomFillSync(Buffer.alloc(32)); exports.main = () => ({ key: key.toString('hex') });")
        self.assertIn("flint.afterRestore", zygote.freeze()["notes"][0])
        zygote = self.zygote("const [key] = [32, 32].map((size) => require('crypto').randomBytes(size)); exports.main = () => ({ key: key.toString('hex') });")
        self.assertIn("One buffer of random bytes", zygote.freeze()["notes"][0])

    def test_pools_of_a_library_are_renewed_whatever_else_was_drawn(self):
        zygote = self.zygote("""const { randomBytes } = require('crypto');
        const pool = randomBytes(4096);
        const own = randomBytes(256);
        exports.main = () => {
          for (let i = 0; i < 20000; i++) randomBytes(300 + i % 8);
          return { values: [pool, own, randomBytes(1024)].map((buffer) => buffer.toString('hex', 0, 16)), sizes: [randomBytes(0).length, randomBytes(65537).length] };
        };""")
        zygote.warm_up().json()
        zygote.freeze(calls=2)
        seen = set()
        for _ in range(10):
            clone = zygote.clone()
            answer = clone.invoke().json()
            clone.end()
            self.assertEqual(answer["sizes"], [0, 65537])
            seen.update(answer["values"])
        self.assertEqual(len(seen), 30)

    def test_pools_are_renewed_where_they_were_filled(self):
        zygote = self.zygote("""const { randomFill, randomFillSync } = require('crypto');
        const bytes = Buffer.alloc(300, 1), words = new Uint32Array(100), buffer = new ArrayBuffer(256), later = new ArrayBuffer(400), twice = new Uint8Array(16);
        const view = new DataView(new ArrayBuffer(200)), given = new ArrayBuffer(256);
        randomFillSync(bytes, 100, 150);
        randomFillSync(words, 50);
        randomFillSync(buffer);
        randomFillSync(view, 8, 128);
        randomFillSync(given);
        structuredClone(given, { transfer: [given] });
        const ready = new Promise((resolve) => { randomFill(later, 200, 200, resolve); });
        const hex = (of, from, to) => Buffer.from(of.buffer || of).toString('hex', from, to);
        exports.main = async () => {
          await ready;
          randomFillSync(twice, 8, 4);
          return { same: [bytes.subarray(0, 100), bytes.subarray(250), words.subarray(0, 50)].map((part) => part.every((value) => value === part[0])).concat(hex(later, 0, 200)),
            pools: [bytes.toString('hex', 100, 250), hex(words, 200, 400), hex(buffer), hex(view, 8, 136), hex(later, 200, 400)] };
        };""")
        for _ in range(2):
            zygote.warm_up().json()
        zygote.freeze(calls=2)
        seen = []
        for _ in range(5):
            clone = zygote.clone()
            seen.append(clone.invoke().json())
            clone.end()
        self.assertEqual([answer["same"] for answer in seen], [[True, True, True, "00" * 200]] * 5)
        self.assertEqual(len({pool for answer in seen for pool in answer["pools"]}), 25)

    # --- memory

    def test_of_large_objects_that_are_gone_no_mapping_stays(self):
        """A process may have 65,530."""
        zygote = self.frozen("""const { readFileSync } = require('fs');
        const mappings = () => readFileSync('/proc/self/maps', 'latin1').split('\\n').length;
        exports.main = () => {
          const before = mappings();
          for (let i = 0; i < 6000; i++) globalThis.kept = new Array(60000 + (i % 7) * 1000).fill(i);
          return { more: mappings() - before };
        };""")
        self.assertLess(self.clone(zygote).invoke().json()["more"], 2000)

    def test_of_buffers_that_are_gone_no_memory_stays(self):
        """The warm-up's, from which clones would copy their own."""
        taken = []
        for buffers in (0, 400):
            zygote = self.zygote("""exports.main = () => {
              const kept = [];
              for (let i = 0; i < %d; i++) kept.push(Buffer.alloc(100000, 1));
              return {};
            };""" % buffers)
            zygote.warm_up({})
            taken.append(zygote.freeze(calls=50)["rssBytes"])
        self.assertLess(taken[1] - taken[0], 16 << 20, taken)

    # --- how a clone ends

    def ended(self, do):
        """The clone that was told to end, and how it did, as the kernel tells it: a wait status."""
        zygote = self.frozen(FUNCTIONS / "ends.js")
        clone = self.clone(zygote)
        pidfd = os.pidfd_open(clone.pid)
        try:
            call = clone.begin({})
            clone.send("INVOKE", call, with_head(clone.head, b'{"do":"%s"}' % do.encode()), fin=True)
            frame = clone.receive()
            clone.ended()
            return clone, frame, outside.wait_status(pidfd)
        finally:
            os.close(pidfd)

    def test_process_exit(self):
        clone, frame, status = self.ended("exit")
        self.assertIsNone(frame)
        self.assertIn(status, (None, 7 << 8))
        self.assertEqual((clone.stdout, clone.stderr), ("exit 7\n", ""))

    def test_a_clone_that_has_nothing_to_do_waits_for_its_next_call(self):
        clone = self.clone(self.frozen(FUNCTIONS / "ends.js"))
        for _ in range(3):
            self.assertEqual(clone.invoke({"do": "unref"}).json(), {})
        self.assertEqual(clone.stdout, "")

    def test_answers_that_nobody_reads_yet_wait_in_their_order(self):
        clone = self.clone(self.frozen("""exports.main = async ({ length }) => {
            await new Promise((resolve) => { setTimeout(resolve, 1); });
            return { text: 'x'.repeat(length) };
        };"""))
        for lengths in ((700_000, 3, 600_000), (5, 700_000)):
            calls = []
            for length in lengths:
                calls.append((clone.begin({}), length))
                clone.send("INVOKE", calls[-1][0], with_head(clone.head, b'{"length":%d}' % length), fin=True)
                if length > 500_000:
                    outside.wait_for_bytes(clone.socket, 64 * 1024)
            for call, length in calls:
                self.assertEqual(clone.answer(call).json(), {"text": "x" * length})

    def test_uncaught_exception(self):
        clone, frame, status = self.ended("throw")
        self.assertEqual((frame.kind, frame.json()["kind"]), ("ERROR", "developer"))
        self.assertIn(status, (None, 1 << 8))
        self.assertIn("Error: thrown", clone.stderr)

    def test_unhandled_rejection(self):
        clone, frame, status = self.ended("reject")
        self.assertEqual((frame.kind, frame.json()["kind"]), ("ERROR", "developer"))
        self.assertIn(status, (None, 1 << 8))
        self.assertIn("Error: rejected", clone.stderr)

    def test_uncaught_exception_that_nobody_listens_for(self):
        clone, frame, status = self.ended("unlisten")
        self.assertIsNone(frame)
        self.assertIn(status, (None, 1 << 8))
        self.assertIn("Error: thrown", clone.stderr)

    def test_abort(self):
        _, frame, status = self.ended("abort")
        self.assertIsNone(frame)
        self.assertIn(status if status is None else status & 0x7f, (None, signal.SIGABRT))

    def test_end_of_the_link(self):
        zygote = self.frozen("exports.main = () => new Promise((resolve) => { setTimeout(resolve, 1e6); });")
        idle, busy = zygote.clone(), zygote.clone()
        busy.send("INVOKE", 1, with_head({"activation": "0"}, b"{}"), fin=True)
        for clone in (idle, busy, zygote.clone(restore=False)):
            clone.end()
            self.assertEqual(clone.stderr, "")

    def test_the_inspector_works(self):
        clone = self.clone(self.frozen(FUNCTIONS / "ends.js"))
        self.assertEqual(clone.invoke({"do": "session"}).json(), {"value": 2})
        self.assertRegex(clone.invoke({"do": "inspector"}).json()["url"], "^ws://127.0.0.1:")

    # --- what cannot be frozen

    def refused(self, setup, words):
        zygote = self.zygote(f"{setup}; exports.main = () => ({{ fine: true }});")
        message = zygote.refusal()
        for word in words:
            self.assertIn(word, message)
        self.zygotes.remove(zygote)
        self.assertEqual(zygote.close(), 0)

    def test_timer(self):
        self.refused("setInterval(() => {}, 1000)", ["1 running timer", "unref()"])

    def test_server(self):
        self.refused("require('net').createServer().listen(0, '127.0.0.1')", ["Server", "flint.beforeSnapshot"])

    def test_worker(self):
        self.refused("new (require('worker_threads').Worker)('setInterval(() => {}, 1000)', { eval: true })", ["extra thread"])

    def test_child(self):
        self.refused("require('child_process').spawn('sleep', ['60'])", ["ChildProcess"])

    def test_open_file(self):
        self.refused("require('fs').openSync(__filename)", ["index.js)", "flint.beforeSnapshot"])

    def test_request_under_way(self):
        self.refused("require('fs').promises.open('/proc/self/status').then((file) => { globalThis.file = file; })", ["/status"])

    def test_hooks_can_clear_the_way(self):
        # Before 22.15 an ES module has the hooks from the global only.
        source = "'flint'" if tuple(map(int, self.shim.version.split(".")[:2])) >= (22, 15) else "'data:text/javascript,export const { beforeSnapshot, afterRestore } = flint'"
        zygote = self.zygote(f"import {{ beforeSnapshot, afterRestore }} from {source};" + """
            import { createServer } from 'net';
            let server, timer;
            const open = () => new Promise((resolve) => { timer = setInterval(() => {}, 1000); server = createServer().listen(0, '127.0.0.1', resolve); });
            await open();
            beforeSnapshot(() => new Promise((resolve) => { clearInterval(timer); server.close(resolve); }));
            afterRestore(open);
            export const main = () => ({ port: server.address().port });""", "index.mjs")
        zygote.freeze()
        self.assertNotEqual(self.clone(zygote).invoke().json(), self.clone(zygote).invoke().json())

    def test_what_does_no_harm_is_no_obstacle(self):
        zygote = self.zygote("""setInterval(() => {}, 1000).unref(); process.on('SIGUSR2', () => {});
            require('http').globalAgent.keepAlive = true; require('fs').readFileSync(__filename);
            exports.main = async () => { await require('fs').promises.stat('/'); return { listeners: process.listenerCount('SIGUSR2') }; };""")
        zygote.warm_up().json()
        zygote.freeze()
        self.assertEqual(self.clone(zygote).invoke().json(), {"listeners": 1})

    # --- compiled code

    def test_a_clone_runs_what_the_zygote_has_compiled(self):
        # The status has bits whose places differ between releases: those of a function that is made so are looked for.
        zygote = self.zygote("""const sum = (values) => values.reduce((a, b) => a + b, 0);
            const status = new Function('f', 'return %GetOptimizationStatus(f)');
            const bits = new Function(`const f = (a) => a + 1; f(1); const plain = %GetOptimizationStatus(f);
              %PrepareFunctionForOptimization(f); f(2); %OptimizeFunctionOnNextCall(f); f(3); return %GetOptimizationStatus(f) & ~plain;`)();
            exports.main = ({ values, ask }) => ({ sum: sum(values), bits, status: ask ? status(sum) & bits : 0 });""", argv=[*self.shim.zygote[:-1], "--allow-natives-syntax", self.shim.zygote[-1]])
        zygote.warm_up({"values": [1, 2, 3], "ask": True})
        report = zygote.freeze(calls=4000, annotate=True)
        self.assertIn("sum", [function["name"] for function in report["functions"]], report)
        self.assertEqual(report["optimised"], report["reached"], report)
        answer = self.clone(zygote).invoke({"values": [1, 2, 3], "ask": True}).json()
        self.assertNotEqual(answer["bits"], 0)
        self.assertEqual((answer["sum"], answer["status"]), (6, answer["bits"]))

    def test_the_shim_is_optimised_where_nothing_was_warmed_up(self):
        """What V8 compiles in a clone, by its own record: the function's own code, and little of the shim, all of which it would compile within some thousand calls."""
        zygote = self.zygote("exports.main = () => ({});", argv=[*self.shim.zygote[:-1], "--trace-opt", self.shim.zygote[-1]])
        zygote.freeze()
        clone = self.clone(zygote)
        for _ in range(100):
            clone.invoke({}, transaction="t", apiKey="k")
        clone.end()
        compiled = re.compile(r"\[compiling method \S+ <JSFunction (?:(\S*) )?\(sfi.*\(target TURBOFAN")
        in_clone = compiled.findall(clone.stdout)
        self.assertLess(len(in_clone), 5, in_clone)
        zygote.close()
        in_zygote = compiled.findall(zygote.stdout)
        self.assertLessEqual({"onInvoke", "handle"}, set(in_zygote), in_zygote)

    # --- around it

    def test_the_first_call_meets_no_shape_that_was_not_practised(self):
        """What V8 has to learn in a clone, by its own record: each entry is a miss, of which the first version had 500."""
        argv = [*self.shim.zygote[:-1], "--log-ic", "--logfile=-", "--no-logfile-per-isolate", self.shim.zygote[-1]]
        for annotate in (True, False):
            with self.subTest(annotate=annotate):
                folder = Path(self.folder.name, f"annotate-{annotate}")  # not the shim's own: what lies beside the function is annotated with it
                folder.mkdir()
                zygote = self.zygote("exports.main = () => ({});", name=f"{folder.name}/index.js", argv=argv)
                for _ in range(3):
                    zygote.warm_up({})
                zygote.freeze(annotate=annotate)
                clone = self.clone(zygote, restore=False)
                clone.restore(time_us=1_700_000_000_000_000, once=False)
                clone.invoke({}, transaction="t", apiKey="k")
                clone.end()
                misses = [line.split(",") for line in clone.stdout.splitlines() if re.match(r"\w*IC,", line)]
                # The answer has left when the link is handed to the event loop.
                names = [fields[8] for fields in misses]
                self.assertIn("setImmediate", names)
                self.assertLess(names.index("setImmediate"), 20, misses[:40])

    def test_a_zygote_has_the_threads_that_flags_json_says(self):
        flags = json.loads((RUNTIMES / "nodejs/flags.json").read_text())
        zygote = self.zygote(FUNCTIONS / "battery.js")
        zygote.warm_up({"case": "poolInParallel"}).json()
        zygote.freeze()
        self.assertEqual(int(outside.status(zygote.process.pid)["Threads"]) - 1, flags["threads"])

    def test_hooks_run_once_where_no_clones_are_made(self):
        code = "const flint = require('flint'); let ran = 0; flint.afterRestore(async () => { ran += 1; }); exports.main = () => ({ ran });"
        zygote = self.zygote(code, argv=[self.shim.argv[0], str(RUNTIMES / "nodejs/shim.js")])
        self.assertRegex(self.hello["snapshot"], "helper was not built")
        self.assertEqual([zygote.invoke().json()["ran"] for _ in range(2)], [1, 1])

    def test_warm_up_requests_are_replayed_in_turn(self):
        zygote = self.zygote("const seen = []; exports.main = ({ name }) => { seen.push(name); return { seen: seen.slice(-4) }; };")
        zygote.warm_up({"name": "a"})
        zygote.warm_up({"name": "b"})
        self.assertEqual(zygote.freeze(calls=5)["warmupCalls"], 5)
        self.assertEqual(self.clone(zygote).invoke({"name": "c"}).json(), {"seen": ["a", "b", "a", "c"]})

    def test_a_function_that_breaks_during_the_replay(self):
        zygote = self.zygote("""let count = 0; exports.main = () => {
            count += 1; if (count === 5) setTimeout(() => { throw new Error('the fifth'); }, 1);
            return count < 5 ? {} : new Promise(() => {});
        };""")
        zygote.warm_up()
        zygote.send_freeze(calls=100)
        error = zygote.expect("ERROR")
        self.assertEqual((error.call, error.json()["kind"]), (0, "developer"))
        self.assertIn("the fifth", error.json()["message"])
        self.assertEqual(zygote.wait(), 1)

    def test_a_warm_up_call_that_does_not_end_the_second_time(self):
        zygote = self.zygote("let count = 0; exports.main = () => { count += 1; return count === 1 ? {} : new Promise(() => {}); };")
        zygote.warm_up()
        self.assertIn("has not ended", zygote.refusal(budgetMs=10))
        self.assertEqual(zygote.close(), 0)
        self.zygotes.remove(zygote)

    def test_warm_up_requests_of_every_kind(self):
        zygote = self.zygote("""exports.main = (params) => {
            if (params.fail) throw new Error('asked to');
            if (params.stream) return (async function* () { for (let i = 0; i < 40; i++) yield Buffer.alloc(65536, i); })();
            return params.body === undefined ? params : { length: params.body.length };
        };""")
        zygote.warm_up({"fail": True})
        self.assertEqual(len(zygote.warm_up({"stream": True}).body), 40 * 65536)
        zygote.invoke(body=b"x" * 1000, warmup=True, headers=[["content-type", "image/png"]])
        self.assertEqual(zygote.freeze(calls=12)["warmupCalls"], 12)
        clone = self.clone(zygote)
        self.assertEqual(clone.invoke({"a": 1}).json(), {"a": 1})
        self.assertEqual(len(clone.invoke({"stream": True}).body), 40 * 65536)


def load_tests(loader, _, __):
    scratch = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(scratch.cleanup)
    suite = unittest.TestSuite()
    for shim in shims.found(Path(scratch.name), ["nodejs"], report=lambda text: print(text, file=sys.stderr)):
        if shim.zygote is None:
            continue
        name = "Clones_" + shim.name.replace(" ", "_").replace(".", "_")
        suite.addTests(loader.loadTestsFromTestCase(type(name, (Clones, unittest.TestCase), {"shim": shim, "__module__": __name__})))
    suite._scratch = scratch  # lives as long as the suite
    return suite


if __name__ == "__main__":
    unittest.main()
