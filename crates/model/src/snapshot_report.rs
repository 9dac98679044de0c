//! What became of a function on its way to a snapshot.

use serde::{Deserialize, Serialize};

/// What was warmed up and frozen: what the runtime shim reports (`docs/link-protocol.md`, ACK), and what Flint measured from outside.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotReport {
    /// Calls that were made to warm it up.
    pub warmup_calls: u64,
    /// How long they took, in milliseconds.
    pub warmup_ms: f64,
    /// Functions of the user's code that warm-up reached, those left behind first; at most 200.
    pub functions: Vec<WarmedFunction>,
    /// How many of those reached are compiled as far as their runtime can.
    pub optimised: u64,
    /// How many functions warm-up reached.
    pub reached: u64,
    /// Memory in huge pages.
    pub huge_page_bytes: u64,
    /// Resident memory of the frozen process.
    pub rss_bytes: u64,
    /// Remarks for people.
    pub notes: Vec<String>,
    /// Memory that is the frozen process' own.
    pub private_bytes: Option<u64>,
    /// Its share of all memory it maps.
    pub pss_bytes: Option<u64>,
    /// How long everything took from start to freeze, in µs.
    pub took_us: u64,
    /// Calls are served from this snapshot; otherwise it was given up, for the reason that stands beside the report.
    pub kept: bool,
}

/// A function of the user's code, as warm-up left it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WarmedFunction {
    /// Its name; empty when it has none.
    pub name: String,
    /// The file it is in.
    pub file: String,
    /// The line it begins at.
    pub line: u64,
    /// What runs it: `turbofan`, `maglev`, `sparkplug`, `interpreted`, `native`, `numba`, `python`; a word of the runtime's.
    pub tier: String,
    /// How often warm-up called it.
    pub calls: u64,
}

impl SnapshotReport {
    /// The functions that were not compiled as far as their runtime can, as far as the report names them. Where nothing is compiled
    /// at all, as in Python without a further compiler, none is behind.
    pub fn left_behind(&self) -> &[WarmedFunction] {
        if self.optimised == 0 && self.functions.iter().all(|function| function.tier == "python") {
            return &[];
        }
        let count = usize::try_from(self.reached.saturating_sub(self.optimised)).unwrap_or(usize::MAX);
        &self.functions[..count.min(self.functions.len())]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_shim_says_is_read_also_when_it_says_more_or_less() {
        let report: SnapshotReport = serde_json::from_value(json!({
            "warmupCalls": 2000, "warmupMs": 81.5, "optimised": 1, "reached": 2, "hugePageBytes": 4 << 20,
            "rssBytes": 60 << 20, "notes": ["2 timers were cleared"], "tomorrow": {"x": 1},
            "functions": [
                {"name": "slow", "file": "index.js", "line": 9, "tier": "maglev", "calls": 3, "deopts": 2},
                {"name": "fact", "file": "index.js", "line": 3, "tier": "turbofan", "calls": 2000},
            ],
        }))
        .unwrap();
        assert_eq!((report.warmup_calls, report.rss_bytes, report.private_bytes), (2000, 60 << 20, None));
        let names: Vec<_> = report.left_behind().iter().map(|function| &*function.name).collect();
        assert_eq!(names, ["slow"]);
        let python = WarmedFunction { tier: "python".to_owned(), ..WarmedFunction::default() };
        let plain = SnapshotReport { functions: vec![python], reached: 1, ..report };
        assert!(plain.left_behind().is_empty());
        assert_eq!(SnapshotReport { optimised: 1, reached: 2, ..plain }.left_behind().len(), 1);
        let empty: SnapshotReport = serde_json::from_value(json!({"reached": 3})).unwrap();
        assert!(empty.left_behind().is_empty() && !empty.kept);
    }
}
