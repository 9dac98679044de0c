//! Renders a report as a table, for people at a terminal.

use std::fmt;

use super::{ArmReport, Comparison, Report, Target, markdown::micros};
use crate::{Failures, Host};

/// A column: its title and its figure.
type Column = (&'static str, fn(&ArmReport) -> Option<f64>);

/// The arms; empty columns are dropped.
fn table(f: &mut fmt::Formatter<'_>, arms: &[ArmReport]) -> fmt::Result {
    fn mib(bytes: Option<u64>) -> Option<f64> {
        bytes.map(|bytes| bytes as f64 / f64::from(1 << 20))
    }
    let columns: [Column; 17] = [
        ("conc", |arm| arm.concurrency.map(|n| n as f64)),
        ("p50 µs", |arm| arm.latency_us.as_ref().map(|latency| latency.p50)),
        ("p90 µs", |arm| arm.latency_us.as_ref().map(|latency| latency.p90)),
        ("p99 µs", |arm| arm.latency_us.as_ref().map(|latency| latency.p99)),
        ("start µs", |arm| arm.start_us),
        ("waits µs", |arm| arm.waits_us),
        ("init µs", |arm| arm.init_us),
        ("first µs", |arm| arm.first_us),
        ("steady µs", |arm| arm.steady_us),
        ("said µs", |arm| arm.said_us),
        ("calls/s", |arm| arm.calls_per_s),
        ("cold", |arm| arm.cold_starts.map(|n| n as f64)),
        ("alive", |arm| arm.instances.map(|n| n as f64)),
        ("cpu µs", |arm| arm.cpu_us_per_call),
        ("RSS MiB", |arm| mib(arm.rss_bytes)),
        ("PSS MiB", |arm| mib(arm.pss_bytes)),
        ("own MiB", |arm| mib(arm.private_bytes)),
    ];
    let used: Vec<_> =
        columns.iter().filter(|(_, pick)| arms.iter().any(|arm| pick(arm).is_some())).collect();
    // Longer names would shift what follows, or run into it.
    let widest = |least: usize, name: fn(&ArmReport) -> &str| {
        arms.iter().map(|arm| name(arm).chars().count() + 1).fold(least, usize::max)
    };
    let of_arm = widest(30, |arm| arm.arm.as_str());
    let of_function = widest(20, |arm| arm.function.as_deref().unwrap_or_default());
    write!(f, "{:<of_arm$}{:<of_function$}", "arm", "function")?;
    for (title, _) in &used {
        write!(f, "{title:>11}")?;
    }
    writeln!(f)?;
    for arm in arms {
        write!(f, "{:<of_arm$}{:<of_function$}", arm.arm, arm.function.as_deref().unwrap_or("–"))?;
        for (title, pick) in &used {
            match pick(arm) {
                None => write!(f, "{:>11}", "–")?,
                Some(value) if title.ends_with("MiB") => write!(f, "{value:>11.2}")?,
                Some(value) if title.ends_with("µs") => write!(f, "{:>11}", micros(value))?,
                Some(value) => write!(f, "{value:>11.0}")?,
            }
        }
        let failed = arm.failures.iter().flat_map(Failures::kinds);
        let failed = failed.map(|(kind, failed)| format!("  {} × {kind}", failed.calls));
        let note = arm.note.iter().map(|note| format!("  {note}"));
        writeln!(f, "{}", note.chain(failed).collect::<String>())?;
    }
    Ok(())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Host { cpu, cores, kernel, load_1m, .. } = &self.host;
        let workloads =
            self.workloads.iter().map(|version| format!(", workloads {version}")).collect::<String>();
        writeln!(
            f,
            "{} on {cores} × {cpu}, Linux {kernel}, load {load_1m}, commit {}{workloads}\n",
            self.experiment, self.commit
        )?;
        table(f, &self.arms)?;
        if !self.ratios.is_empty() {
            writeln!(f)?;
        }
        if let Some(why) = &self.withheld {
            writeln!(f, "\nnothing is compared: {why}")?;
        }
        for note in &self.notes {
            writeln!(f, "\nnote  {note}")?;
        }
        for Comparison { a, b, function, times, test } in &self.comparisons {
            writeln!(
                f,
                "{function}: {a} takes {times:.2} × as long as {b} (U {:.0}, p {:.2e}, n {} and {}, rank-biserial {:.2})",
                test.u, test.p, test.n1, test.n2, test.rank_biserial
            )?;
        }
        for (name, ratio) in &self.ratios {
            writeln!(f, "ratio  {name} = {ratio:.2}")?;
        }
        if !self.targets.is_empty() {
            writeln!(f)?;
        }
        for promised in &self.targets {
            let Target { name, value, target, met, .. } = promised;
            // What was excluded (`--arms`) does not count as missed.
            match (value, met.unwrap_or(false)) {
                (None, _) => {
                    let unjudged = self.unjudged(promised);
                    writeln!(f, "–       {name}: {unjudged} (target {target})")?;
                }
                (Some(value), true) => writeln!(f, "met     {name}: {value:.2} (target {target})")?,
                (Some(value), false) => writeln!(f, "MISSED  {name}: {value:.2} (target {target})")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Latency, Median};

    #[test]
    fn a_call_of_some_microseconds_is_not_rounded_to_one() {
        let latency = Latency { p50: 3.34, p90: 99.9, p99: 1234.6 };
        let interval_us = Some(Median { median: 3.34, low: 3.26, high: 3.41, n: 5 });
        let row =
            ArmReport { arm: "a".into(), latency_us: Some(latency), interval_us, ..ArmReport::default() };
        let report = Report { arms: vec![row], ..Report::default() };
        let text = report.to_string();
        let cells: Vec<_> =
            text.lines().find(|line| line.starts_with("a ")).unwrap().split_whitespace().collect();
        assert_eq!(cells[2..], ["3.3", "99.9", "1235"], "{text}");
        assert!(report.markdown().contains("| 3.3 | 3.3 – 3.4 | 99.9 | 1235 |"), "{}", report.markdown());
    }

    #[test]
    fn columns_stand_below_each_other_however_long_names_are() {
        let row = |arm: &str, function: &str| ArmReport {
            arm: arm.into(),
            function: Some(function.into()),
            concurrency: Some(1),
            ..ArmReport::default()
        };
        let long = row("functions-framework-unwarmed cold", "alexa:reminder-retrieve node");
        let report = Report { arms: vec![row("a", "f"), long], ..Report::default() };
        let text = report.to_string();
        let rows: Vec<_> = text.lines().filter(|line| line.ends_with(['1', 'c'])).collect();
        let ends: Vec<_> = rows.iter().map(|line| line.chars().count()).collect();
        assert!(ends.len() == 3 && ends.iter().all(|end| *end == ends[0]), "{text}");
        let names = "functions-framework-unwarmed cold alexa:reminder-retrieve node ";
        assert!(rows[2].starts_with(names), "{text}");
    }
}
