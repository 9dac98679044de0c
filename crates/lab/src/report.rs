//! What an experiment says: one JSON document, or a table for people.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use crate::{ArmRounds, Host, median};

/// The result of an experiment. Latencies are in µs; a field that does not apply is absent.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Its name.
    pub experiment: String,
    /// On what it ran.
    pub host: Host,
    /// Which commit was measured.
    pub commit: String,
    /// What was measured.
    pub arms: Vec<ArmReport>,
    /// Medians of ratios taken round by round.
    pub ratios: BTreeMap<String, f64>,
    /// What was promised, and whether it held.
    pub targets: Vec<Target>,
}

/// One arm: the medians over its rounds.
#[derive(Debug, Default, Serialize)]
pub struct ArmReport {
    /// Its name.
    pub arm: String,
    /// The function called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Calls at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// Calls in all rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    /// Latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Latency>,
    /// Until an instance was there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_us: Option<f64>,
    /// The first call of an instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_us: Option<f64>,
    /// Its later calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steady_us: Option<f64>,
    /// Throughput.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_per_s: Option<f64>,
    /// CPU time of the server and its instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us_per_call: Option<f64>,
    /// Resident memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<u64>,
    /// Proportional memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pss_bytes: Option<u64>,
    /// Memory shared with nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_bytes: Option<u64>,
    /// What a reader has to know about it; where there are no figures, why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Latency quantiles in µs.
#[derive(Debug, Default, Serialize)]
pub struct Latency {
    /// Half of the calls took at most this.
    pub p50: f64,
    /// 90 % did.
    pub p90: f64,
    /// 99 % did.
    pub p99: f64,
}

/// A promise and what was measured.
#[derive(Debug, Serialize)]
pub struct Target {
    /// What was promised, with its unit.
    pub name: String,
    /// What was measured; absent when it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// What was promised: `<= 100`, `>= 7000`.
    pub target: String,
    /// Whether it held; absent when it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
}

impl Target {
    /// A promise that the value is at most `most`.
    pub fn at_most(name: &str, value: Option<f64>, most: f64) -> Self {
        Self { name: name.into(), value, target: format!("<= {most}"), met: value.map(|value| value <= most) }
    }

    /// A promise that the value is at least `least`.
    pub fn at_least(name: &str, value: Option<f64>, least: f64) -> Self {
        Self {
            name: name.into(),
            value,
            target: format!(">= {least}"),
            met: value.map(|value| value >= least),
        }
    }
}

impl From<&ArmRounds> for ArmReport {
    fn from(arm: &ArmRounds) -> Self {
        let quantile = |q| arm.quantile_us(q).unwrap_or(0.0);
        Self {
            arm: arm.plan.name.clone(),
            function: arm.plan.function.clone(),
            concurrency: Some(arm.plan.load.concurrency),
            n: Some(arm.rounds.iter().map(|round| round.calls).sum()),
            latency_us: Some(Latency { p50: quantile(0.5), p90: quantile(0.9), p99: quantile(0.99) }),
            calls_per_s: median(&arm.rates()),
            cpu_us_per_call: median(&arm.cpu_us_per_call),
            ..Self::default()
        }
    }
}

/// A column: its title, and what stands in it.
type Column = (&'static str, fn(&ArmReport) -> Option<f64>);

/// The arms; columns in which nothing stands are left out.
fn table(f: &mut fmt::Formatter<'_>, arms: &[ArmReport]) -> fmt::Result {
    fn mib(bytes: Option<u64>) -> Option<f64> {
        bytes.map(|bytes| bytes as f64 / f64::from(1 << 20))
    }
    let columns: [Column; 11] = [
        ("conc", |arm| arm.concurrency.map(|n| n as f64)),
        ("p50 µs", |arm| arm.latency_us.as_ref().map(|latency| latency.p50)),
        ("p90 µs", |arm| arm.latency_us.as_ref().map(|latency| latency.p90)),
        ("p99 µs", |arm| arm.latency_us.as_ref().map(|latency| latency.p99)),
        ("start µs", |arm| arm.start_us),
        ("first µs", |arm| arm.first_us),
        ("steady µs", |arm| arm.steady_us),
        ("calls/s", |arm| arm.calls_per_s),
        ("cpu µs", |arm| arm.cpu_us_per_call),
        ("PSS MiB", |arm| mib(arm.pss_bytes)),
        ("own MiB", |arm| mib(arm.private_bytes)),
    ];
    let used: Vec<_> =
        columns.iter().filter(|(_, pick)| arms.iter().any(|arm| pick(arm).is_some())).collect();
    write!(f, "{:<30}{:<20}", "arm", "function")?;
    for (title, _) in &used {
        write!(f, "{title:>11}")?;
    }
    writeln!(f)?;
    for arm in arms {
        write!(f, "{:<30}{:<20}", arm.arm, arm.function.as_deref().unwrap_or("–"))?;
        for (title, pick) in &used {
            match pick(arm) {
                None => write!(f, "{:>11}", "–")?,
                Some(value) if title.ends_with("MiB") => write!(f, "{value:>11.2}")?,
                Some(value) => write!(f, "{value:>11.0}")?,
            }
        }
        writeln!(f, "{}", arm.note.as_ref().map(|note| format!("  {note}")).unwrap_or_default())?;
    }
    Ok(())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Host { cpu, cores, kernel, load_1m, .. } = &self.host;
        writeln!(
            f,
            "{} on {cores} × {cpu}, Linux {kernel}, load {load_1m}, commit {}\n",
            self.experiment, self.commit
        )?;
        table(f, &self.arms)?;
        if !self.ratios.is_empty() {
            writeln!(f)?;
        }
        for (name, ratio) in &self.ratios {
            writeln!(f, "ratio  {name} = {ratio:.2}")?;
        }
        if !self.targets.is_empty() {
            writeln!(f)?;
        }
        for Target { name, value, target, met } in &self.targets {
            // What was not asked for (`--arms`) has not been missed.
            match (value, met.unwrap_or(false)) {
                (None, _) => writeln!(f, "–       {name}: not measured (target {target})")?,
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

    #[test]
    fn what_was_not_measured_is_neither_met_nor_missed() {
        let report = Report {
            experiment: "x".into(),
            host: Host::describe(),
            commit: "c".into(),
            arms: Vec::new(),
            ratios: BTreeMap::new(),
            targets: vec![
                Target::at_most("a", Some(1.0), 2.0),
                Target::at_least("b", Some(1.0), 2.0),
                Target::at_least("c", None, 2.0),
            ],
        };
        let text = report.to_string();
        for line in
            ["met     a: 1.00 (target <= 2)", "MISSED  b: 1.00 (target >= 2)", "–       c: not measured"]
        {
            assert!(text.contains(line), "{text}");
        }
    }
}
