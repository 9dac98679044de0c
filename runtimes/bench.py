#!/usr/bin/env python3
"""Round trips of a tiny JSON call through each shim: calls per second, p50 and p99 in microseconds.

One synchronous client on a socketpair, no Flint in between. With --pin client and shim share one core: the figure
is then the shim's and the client's processor time; without it, waking the other core is part of every call.
Usage: bench.py [--pin] [--calls N] [--warmup N] [nodejs|python|java ...]
"""

import argparse
import os
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "conformance"))

import shims  # noqa: E402
from peer import FAR_DEADLINE_MS, KINDS, HEADER, Peer, with_head, encode  # noqa: E402


def measure(argv, code, main, calls, warmup):
    started = time.perf_counter()
    with closing(Peer(argv)) as peer:
        peer.expect("HELLO")
        hello_ms = (time.perf_counter() - started) * 1e3
        peer.init(code, main)
        peer.expect("READY")
        ready_ms = (time.perf_counter() - started) * 1e3
        link, taken, perf = peer.socket, [], time.perf_counter_ns
        link.settimeout(None)
        for call in range(1, warmup + calls + 1):
            head = {"activation": f"{call:032x}", "deadline": FAR_DEADLINE_MS + call}
            request = encode("INVOKE", call, with_head(head, b'{"name":"Ada"}'), fin=True)
            before = perf()
            link.sendall(request)
            reply = link.recv(65536)
            taken.append(perf() - before)
            length, kind, fin, _, of = HEADER.unpack_from(reply)
            if (kind, fin, of, length + 12) != (KINDS["RESULT"], 1, call, len(reply)):
                raise SystemExit(f"unexpected reply {reply!r}: {peer.stderr}")
    taken = sorted(taken[warmup:])
    return hello_ms, ready_ms, 1e9 * len(taken) / sum(taken), taken[len(taken) // 2] / 1e3, taken[len(taken) * 99 // 100] / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--calls", type=int, default=40000)
    parser.add_argument("--warmup", type=int, default=20000)
    parser.add_argument("languages", nargs="*")
    options = parser.parse_args()
    if options.pin:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print(f"{'shim':28} {'HELLO ms':>9} {'READY ms':>9} {'calls/s':>9} {'p50 µs':>8} {'p99 µs':>8}")
    with tempfile.TemporaryDirectory() as scratch:
        for shim in shims.found(Path(scratch), options.languages):
            code, entry = shim.sample(Path(scratch))
            for name, argv in shim.variants():
                hello, ready, rate, p50, p99 = measure(argv, code, entry, options.calls, options.warmup)
                print(f"{name:28} {hello:9.1f} {ready:9.1f} {rate:9.0f} {p50:8.1f} {p99:8.1f}", flush=True)


if __name__ == "__main__":
    main()
