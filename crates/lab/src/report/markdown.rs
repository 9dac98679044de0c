//! Renders a report as Markdown, for documents and pull requests.

use std::fmt::Write as _;

use super::{ArmReport, Report};
use crate::Failures;

type Column = (&'static str, fn(&ArmReport) -> Option<String>);

/// With a tenth of a µs for calls of some µs.
pub(super) fn micros(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn mib(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / f64::from(1 << 20))
}

/// All columns.
pub(super) const COLUMNS: [Column; 20] = [
    ("at once", |arm| arm.concurrency.map(|n| n.to_string())),
    ("n", |arm| arm.n.map(|n| n.to_string())),
    ("p50 µs", |arm| arm.latency_us.as_ref().map(|latency| micros(latency.p50))),
    ("95 % interval of p50", |arm| {
        arm.interval_us.map(|median| format!("{} – {}", micros(median.low), micros(median.high)))
    }),
    ("p90 µs", |arm| arm.latency_us.as_ref().map(|latency| micros(latency.p90))),
    ("p99 µs", |arm| arm.latency_us.as_ref().map(|latency| micros(latency.p99))),
    ("start µs", |arm| arm.start_us.map(micros)),
    ("waits µs", |arm| arm.waits_us.map(micros)),
    ("init µs", |arm| arm.init_us.map(micros)),
    ("first µs", |arm| arm.first_us.map(micros)),
    ("steady µs", |arm| arm.steady_us.map(micros)),
    ("said µs", |arm| arm.said_us.map(micros)),
    ("calls/s", |arm| arm.calls_per_s.map(|rate| format!("{rate:.1}"))),
    ("cold", |arm| arm.cold_starts.map(|n| n.to_string())),
    ("alive", |arm| arm.instances.map(|n| n.to_string())),
    ("CPU µs", |arm| arm.cpu_us_per_call.map(micros)),
    ("RSS MiB", |arm| arm.rss_bytes.map(mib)),
    ("PSS MiB", |arm| arm.pss_bytes.map(mib)),
    ("USS MiB", |arm| arm.private_bytes.map(mib)),
    ("failed", |arm| arm.failures.as_ref().map(Failures::calls).filter(|n| *n > 0).map(|n| n.to_string())),
];

impl Report {
    /// Rows of cells, the header first; empty columns are dropped.
    pub(super) fn cells(&self) -> Vec<Vec<String>> {
        let used: Vec<_> =
            COLUMNS.iter().filter(|(_, pick)| self.arms.iter().any(|arm| pick(arm).is_some())).collect();
        let notes = self.arms.iter().any(|arm| arm.note.is_some());
        let head = ["arm", "function"].into_iter().chain(used.iter().map(|(title, _)| *title));
        let mut rows = vec![head.chain(notes.then_some("note")).map(str::to_owned).collect::<Vec<_>>()];
        for arm in &self.arms {
            let mut row = vec![arm.arm.clone(), arm.function.clone().unwrap_or_default()];
            row.extend(used.iter().map(|(_, pick)| pick(arm).unwrap_or_default()));
            row.extend(notes.then(|| arm.note.clone().unwrap_or_default()));
            rows.push(row);
        }
        rows
    }

    /// The circumstances of the measurement, one per line.
    pub(super) fn circumstances(&self) -> Vec<(String, String)> {
        let host = &self.host;
        let gib = host.memory_bytes as f64 / f64::from(1 << 30);
        let mut lines = vec![
            ("commit".to_owned(), self.commit.clone()),
            (
                "host".to_owned(),
                format!("{} × {}, {gib:.0} GiB, {}, Linux {}", host.cores, host.cpu, host.os, host.kernel),
            ),
        ];
        lines.extend(self.workloads.iter().map(|version| ("workloads".to_owned(), version.clone())));
        if let Some(noise) = &self.noise {
            let memory = match noise.memory_spread {
                0.0 => String::new(),
                spread => format!(", the memory's time to answer by {spread:.2} ×"),
            };
            let rest = noise.start_after_rest.map_or_else(String::new, |times| {
                format!(", a process started after a rest takes {times:.1} × as long")
            });
            let text = format!(
                "{:.1} % of the processors' time stolen, {:.1} % used by others, a fixed computation varied by {:.2} ×{memory}{rest}, load {} at the beginning",
                100.0 * noise.stolen,
                100.0 * noise.others,
                noise.spread,
                host.load_1m
            );
            lines.push(("noise".to_owned(), text));
        }
        if !self.settings.is_null() {
            lines.push(("settings".to_owned(), self.settings.to_string()));
        }
        lines.extend(self.versions.iter().map(|(what, version)| (what.clone(), version.clone())));
        lines
    }

    /// The comparisons, each as a sentence.
    pub(super) fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        if let Some(why) = &self.withheld {
            findings.push(format!("Nothing is compared, because the host was too noisy: {why}."));
        }
        findings.extend(self.notes.iter().cloned());
        findings.extend(self.comparisons.iter().map(|one| {
            format!(
                "{}: {} takes {:.2} × as long as {} (Mann–Whitney U = {:.0}, p = {:.2e}, n = {} and {}, rank-biserial {:.2})",
                one.function, one.a, one.times, one.b, one.test.u, one.test.p, one.test.n1, one.test.n2, one.test.rank_biserial
            )
        }));
        findings.extend(self.ratios.iter().map(|(name, ratio)| format!("{name}: {ratio:.2}")));
        findings.extend(self.targets.iter().map(|target| match (target.value, target.met) {
            (Some(value), Some(true)) => {
                format!("met: {} {value:.2} (target {})", target.name, target.target)
            }
            (Some(value), _) => format!("MISSED: {} {value:.2} (target {})", target.name, target.target),
            (None, _) => {
                let why = self.unjudged(target);
                format!("{why}: {} (target {})", target.name, target.target)
            }
        }));
        findings
    }

    /// The report as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n", self.experiment);
        for (name, value) in self.circumstances() {
            let _ = writeln!(text, "- **{name}**: {value}");
        }
        text.push('\n');
        for (at, row) in self.cells().iter().enumerate() {
            let cells: Vec<_> = row.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
            let _ = writeln!(text, "| {} |", cells.join(" | "));
            if at == 0 {
                let _ = writeln!(text, "|{}", "---|".repeat(row.len()));
            }
        }
        let findings = self.findings();
        if !findings.is_empty() {
            text.push('\n');
        }
        for finding in findings {
            let _ = writeln!(text, "- {finding}");
        }
        text
    }
}
