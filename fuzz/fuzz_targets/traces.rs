//! Tables of Azure's traces: any bytes are refused or become calls in their order, no more of them than were asked for. A line `----`
//! ends a table; the first one alone is read as the trace of 2021, all three as a day of 2019.
#![no_main]

use std::time::Duration;

use flint_lab::trace::{Azure2019, Azure2021, Part, Replay, Wanted, WholeTrace, select};
use libfuzzer_sys::fuzz_target;

const PART: Part = Part { length: Duration::from_secs(7200), functions: 10, calls: 1000 };
const BETWEEN: &[u8] = b"\n----\n";

fuzz_target!(|bytes: &[u8]| {
    let mut tables = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(BETWEEN.len()).position(|window| window == BETWEEN) {
        tables.push(&rest[..at]);
        rest = &rest[at + BETWEEN.len()..];
    }
    tables.push(rest);
    if let Ok(trace) = Azure2021::read(tables[0]) {
        whole(&WholeTrace::of_2021(&trace, PART));
    }
    let Ok(trace) = Azure2019::read(tables[0], tables.get(1).copied(), tables.get(2).copied()) else {
        return;
    };
    whole(&WholeTrace::of_2019(&trace, PART, 1));
    if let Some(chosen) = select(&trace, Wanted { least_mb: 100.0, most_mb: 200.0 }) {
        let replay = Replay { copies: 3, minutes: 59, compression: 60.0 };
        let arrivals = replay.schedule(chosen);
        assert!(arrivals.is_sorted_by_key(|arrival| arrival.at), "copies out of order");
        assert!(arrivals.iter().all(|arrival| arrival.at <= replay.duration() && arrival.which < 3));
    }
});

fn whole(trace: &WholeTrace) {
    assert!(trace.calls.len() <= PART.calls && trace.functions.len() <= PART.functions);
    assert!(trace.calls.is_sorted_by_key(|call| call.at), "calls out of order");
    assert!(trace.calls.iter().all(|call| call.at < PART.length && call.function < trace.functions.len()));
    assert_eq!(trace.compressed(60.0).calls.len(), trace.calls.len());
}
