//! The charts of one function: components of its calls, their distribution, and their course over time or by
//! number of callers.

use super::{ArmReport, Axis, Point};
use crate::plot::{Bar, bars, boxes, cdf, escape, lines};

pub(super) fn of(arms: &[&ArmReport]) -> String {
    [split(arms), by_callers(arms), distributions(arms), over(arms, Axis::Time), over(arms, Axis::Instances)]
        .concat()
}

fn figure(title: &str, content: &str) -> String {
    format!("<figure><figcaption>{}</figcaption>{content}</figure>", escape(title))
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Labels of the arms, with the number of callers where it distinguishes those in `all`.
fn labels(arms: &[&ArmReport], all: &[&ArmReport]) -> Vec<String> {
    let label = |arm: &&ArmReport| match arm.concurrency {
        Some(n) if levels(all, &arm.arm).len() > 1 => format!("{} × {n}", arm.arm),
        _ => arm.arm.clone(),
    };
    arms.iter().map(label).collect()
}

/// The concurrency levels of an arm, ascending.
fn levels(arms: &[&ArmReport], name: &str) -> Vec<usize> {
    let rows = arms.iter().filter(|arm| arm.arm == name);
    let mut levels: Vec<usize> = rows.filter_map(|arm| arm.concurrency).collect();
    levels.sort_unstable();
    levels.dedup();
    levels
}

/// Whether some of its calls started an instance and others did not, so that their figures must not be mixed.
fn is_mixed(arm: &ArmReport) -> bool {
    arm.cold_starts.zip(arm.n).is_some_and(|(cold, all)| 0 < cold && cold < all)
}

/// The components of the median call.
fn split(arms: &[&ArmReport]) -> String {
    let shown: Vec<Bar> = arms
        .iter()
        .zip(labels(arms, arms))
        .filter(|(arm, _)| !is_mixed(arm))
        .filter_map(|(arm, name)| {
            let run = arm.first_us.filter(|_| arm.start_us.is_some()).or(arm.steady_us)?;
            let (start, init) = (arm.start_us.unwrap_or(0.0), arm.init_us.unwrap_or(0.0));
            let rest = arm.latency_us.as_ref().map_or(0.0, |latency| (latency.p50 - start - run).max(0.0));
            let parts = [(start - init).max(0.0), init, run, rest].map(|us| us / 1e3).into();
            Some(Bar { name, parts })
        })
        .collect();
    match shown.is_empty() {
        true => String::new(),
        false => figure(
            "Start, loading and execution of the median call",
            &bars(&shown, &["start", "loading code", "execution", "rest"], "ms"),
        ),
    }
}

/// A chart's row: its title, its unit and the figure.
type ByCallers = (&'static str, &'static str, fn(&ArmReport) -> Option<f64>);

const BY_CALLERS: [ByCallers; 3] = [
    ("Latency by calls at once, 90th percentile", "ms", |arm| Some(arm.latency_us.as_ref()?.p90 / 1e3)),
    ("Throughput by calls at once", "calls/s", |arm| arm.calls_per_s),
    ("Memory by calls at once (PSS)", "MiB", |arm| arm.pss_bytes.map(mib)),
];

/// Charts of arms measured at several concurrency levels.
fn by_callers(arms: &[&ArmReport]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for arm in arms.iter().filter(|arm| levels(arms, &arm.arm).len() > 1) {
        if !names.contains(&arm.arm.as_str()) {
            names.push(&arm.arm);
        }
    }
    let of = |name: &str, pick: fn(&ArmReport) -> Option<f64>| {
        let rows = arms.iter().filter(|arm| arm.arm == name);
        let points = rows.filter_map(|arm| Some((arm.concurrency? as f64, pick(arm)?)));
        let mut points: Vec<(f64, f64)> = points.collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let pictures = BY_CALLERS.iter().filter_map(|&(title, unit, pick)| {
        let series: Vec<_> = names.iter().map(|name| (*name, of(name, pick))).collect();
        drawn(title, series, "calls at once", unit)
    });
    pictures.collect()
}

/// A chart of the existing data in `series`.
fn drawn(title: &str, mut series: Vec<(&str, Vec<(f64, f64)>)>, x: &str, y: &str) -> Option<String> {
    series.retain(|(_, points)| !points.is_empty());
    (!series.is_empty()).then(|| figure(title, &lines(&series, x, y)))
}

fn distributions(arms: &[&ArmReport]) -> String {
    let ends = |pick: fn(&[usize]) -> Option<&usize>| {
        let is_there = |arm: &&&ArmReport| arm.concurrency == pick(&levels(arms, &arm.arm)).copied();
        arms.iter().filter(is_there).copied().collect::<Vec<_>>()
    };
    // All levels of all arms in one chart would be indistinguishable.
    if arms.iter().any(|arm| levels(arms, &arm.arm).len() > 1) {
        return distribution("Latency with the fewest calls at once", &ends(<[_]>::first), arms)
            + &distribution("Latency with the most calls at once", &ends(<[_]>::last), arms);
    }
    distribution("Latency", arms, arms)
}

fn distribution(what: &str, arms: &[&ArmReport], all: &[&ArmReport]) -> String {
    let names = labels(arms, all);
    let millis: Vec<(&str, Vec<f64>)> = arms
        .iter()
        .zip(&names)
        .filter(|(arm, _)| !arm.samples_us.is_empty())
        .map(|(arm, name)| (name.as_str(), arm.samples_us.iter().map(|us| us / 1e3).collect()))
        .collect();
    if millis.is_empty() {
        return String::new();
    }
    let series: Vec<(&str, &[f64])> =
        millis.iter().map(|(name, values)| (*name, values.as_slice())).collect();
    figure(&format!("{what}: how many calls took at most so long"), &cdf(&series, "latency, ms"))
        + &figure(&format!("{what}: quartiles, and 1st to 99th percentile"), &boxes(&series, "latency, ms"))
}

/// A chart's point: its meaning, its unit and the figure.
type Shown = (&'static str, &'static str, fn(&Point) -> Option<f64>);

const SHOWN: [Shown; 6] = [
    ("Latency of each call", "ms", |point| point.latency_us.map(|us| us / 1e3)),
    ("Latency, 90th percentile,", "ms", |point| point.p90_us.map(|us| us / 1e3)),
    ("Cold starts so far", "calls", |point| point.cold_starts.map(|n| n as f64)),
    ("Memory", "MiB", |point| point.memory_bytes.map(mib)),
    ("Throughput", "calls/s", |point| point.calls_per_s),
    ("Processes of the function", "processes", |point| point.instances.map(|n| n as f64)),
];

/// The notes of rows whose points have this axis.
fn over(arms: &[&ArmReport], axis: Axis) -> String {
    let (words, x) = match axis {
        Axis::Time => ("over time", "time, s"),
        Axis::Instances => ("by instances", "instances"),
    };
    let named: Vec<_> = arms.iter().zip(labels(arms, arms)).filter(|(arm, _)| arm.axis == axis).collect();
    let pictures = SHOWN.iter().filter_map(|(what, unit, pick)| {
        let of = |arm: &ArmReport| -> Vec<(f64, f64)> {
            arm.series.iter().filter_map(|point| Some((point.at_s, pick(point)?))).collect()
        };
        let series = named.iter().map(|(arm, name)| (name.as_str(), of(arm))).collect();
        drawn(&format!("{what} {words}"), series, x, unit)
    });
    pictures.collect()
}
