//! Describes a function's preparation for people.

use flint_api_native::resource::{
    PreparedResource, SnapshotReportResource, StrategyResource, WarmedFunctionResource,
};

use super::{human_duration, human_size};

/// Maximum number of unoptimised functions that are named.
const NAMED: usize = 5;

/// A strategy in a word: `process/fork/never`.
pub(crate) fn strategy_words(strategy: &StrategyResource) -> String {
    format!("{}/{}/{}", strategy.isolation, strategy.start, strategy.reuse)
}

/// The snapshot and its warm-up, and why the function fell back, if it did.
pub(crate) fn prepared_lines(prepared: &PreparedResource) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(report) = &prepared.snapshot {
        lines.push(warmup(report));
        if report.kept {
            lines.push(snapshot(report));
        }
        lines.extend(report.notes.iter().map(|note| format!("note: {note}")));
    }
    if let Some(why) = &prepared.fallback {
        lines.push(format!("fell back to {}: {why}", strategy_words(&prepared.strategy)));
    }
    lines
}

fn warmup(report: &SnapshotReportResource) -> String {
    if report.warmup_calls == 0 {
        return "not warmed up: `--warmup FILE` names what to call it with".to_owned();
    }
    let calls = if report.warmup_calls == 1 { "call" } else { "calls" };
    let took = human_duration((report.warmup_ms.max(0.0) * 1000.0) as u64);
    let mut text = format!("warmed up by {} {calls} in {took}", report.warmup_calls);
    if report.optimised > 0 || !report.left_behind.is_empty() {
        text.push_str(&format!("; {} of {} functions optimised", report.optimised, report.reached));
    }
    if !report.left_behind.is_empty() {
        let behind = usize::try_from(report.reached.saturating_sub(report.optimised)).unwrap_or(usize::MAX);
        let named: Vec<_> = report.left_behind.iter().take(NAMED).map(function).collect();
        text.push_str(&format!("; left behind: {}", named.join(", ")));
        if behind > named.len() {
            text.push_str(&format!(" and {} more", behind - named.len()));
        }
    }
    text
}

/// `fact (index.js:3, maglev)`
fn function(function: &WarmedFunctionResource) -> String {
    let WarmedFunctionResource { name, file, line, tier, .. } = function;
    let name = if name.is_empty() { "(anonymous)" } else { name };
    format!("{name} ({file}:{line}, {tier})")
}

fn snapshot(report: &SnapshotReportResource) -> String {
    let parts = [
        report.private_bytes.map(|bytes| format!("{} its own", human_size(bytes))),
        report.pss_bytes.map(|bytes| format!("{} proportional", human_size(bytes))),
        (report.huge_page_bytes > 0).then(|| format!("{} in huge pages", human_size(report.huge_page_bytes))),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    format!("snapshot of {}{parts}, made in {}", human_size(report.rss_bytes), human_duration(report.took_us))
}

#[cfg(test)]
mod tests {
    use flint_model::{Isolation, Reuse, Start};

    use super::*;

    fn prepared(report: SnapshotReportResource, fallback: Option<&str>) -> PreparedResource {
        PreparedResource {
            strategy: StrategyResource {
                isolation: Isolation::Process,
                start: if fallback.is_some() { Start::Spawn } else { Start::Fork },
                reuse: Reuse::Warm,
                concurrency: 1,
            },
            fallback: fallback.map(str::to_owned),
            snapshot: Some(report),
        }
    }

    fn warmed(name: &str) -> WarmedFunctionResource {
        WarmedFunctionResource {
            name: name.to_owned(),
            file: "index.js".to_owned(),
            line: 3,
            tier: "maglev".to_owned(),
            calls: 9,
        }
    }

    #[test]
    fn a_snapshot_is_told_with_its_calls_tiers_size_and_time() {
        let report = SnapshotReportResource {
            kept: true,
            took_us: 912_345,
            warmup_calls: 2000,
            warmup_ms: 81.5,
            reached: 9,
            optimised: 2,
            left_behind: ["a", "b", "", "d", "e", "f"].map(warmed).into(),
            rss_bytes: 60 << 20,
            private_bytes: Some(12 << 20),
            huge_page_bytes: 4 << 20,
            notes: vec!["a timer was cleared".to_owned()],
            ..SnapshotReportResource::default()
        };
        let expected = [
            "warmed up by 2000 calls in 81.5 ms; 2 of 9 functions optimised; left behind: a (index.js:3, maglev), \
             b (index.js:3, maglev), (anonymous) (index.js:3, maglev), d (index.js:3, maglev), e (index.js:3, maglev) and 2 more",
            "snapshot of 60 MB (12 MB its own, 4.0 MB in huge pages), made in 912.3 ms",
            "note: a timer was cleared",
        ];
        assert_eq!(prepared_lines(&prepared(report, None)), expected);
    }

    #[test]
    fn a_fall_back_is_told_with_its_reason_and_without_a_snapshot() {
        let lines =
            prepared_lines(&prepared(SnapshotReportResource::default(), Some("2 threads were alive")));
        assert_eq!(
            lines,
            [
                "not warmed up: `--warmup FILE` names what to call it with",
                "fell back to process/spawn/warm: 2 threads were alive"
            ]
        );
    }

    #[test]
    fn where_nothing_is_compiled_no_function_is_behind() {
        let report = SnapshotReportResource {
            warmup_calls: 1,
            warmup_ms: 2.0,
            reached: 3,
            ..SnapshotReportResource::default()
        };
        assert_eq!(prepared_lines(&prepared(report, None)), ["warmed up by 1 call in 2.00 ms"]);
    }
}
