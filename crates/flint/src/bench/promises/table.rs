//! Prints promises and their verdicts as a table, with their origins below.

use std::{collections::BTreeMap, fmt};

use super::verdicts::Kept;
use crate::output::{print_json, print_line};

pub(super) fn show(mut kept: Vec<Kept>, origins: &[String], json: bool) -> anyhow::Result<()> {
    kept.sort_by_key(|row| order(&row.promise));
    if json {
        return print_json(&kept);
    }
    print_line(&Table(&kept).to_string())?;
    origins.iter().try_for_each(|line| print_line(line))
}

/// A sort key by which S2 precedes S10.
pub(super) fn order(promise: &str) -> (String, u32) {
    let letters: String = promise.chars().take_while(|sign| !sign.is_ascii_digit()).collect();
    let number = promise[letters.len()..].parse().unwrap_or(0);
    (letters, number)
}

struct Table<'a>(&'a [Kept]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.0.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        writeln!(f, "{:<5} {:<width$} {:>12}  {:<12} verdict", "", "promise", "value", "target")?;
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for row in self.0 {
            let value = row.value.map_or("–".to_owned(), |value| format!("{value:.2}"));
            writeln!(
                f,
                "{:<5} {:<width$} {value:>12}  {:<12} {}",
                row.promise, row.name, row.target, row.verdict
            )?;
            *counts.entry(row.verdict.split(':').next().unwrap_or_default()).or_default() += 1;
        }
        let counts: Vec<_> = counts.iter().map(|(verdict, n)| format!("{n} {verdict}")).collect();
        write!(f, "\n{}", counts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use flint_lab::{Report, Target};

    use super::*;
    use crate::bench::promises::verdicts::rows;

    #[test]
    fn a_promise_is_met_missed_not_measured_or_not_judged() {
        let target = |n, value| Target::at_most("t", value, 2.0).of(n);
        let report = Report {
            experiment: "x".into(),
            targets: vec![target("S10", Some(1.0)), target("S2", Some(3.0)), target("S1", None)],
            ..Report::default()
        };
        let noisy =
            Report { withheld: Some("stolen".into()), targets: vec![target("C1", None)], ..report.clone() };
        let unnumbered = Report { targets: vec![Target::at_most("u", None, 1.0)], ..report.clone() };
        let mut kept: Vec<Kept> = [&report, &noisy, &unnumbered].into_iter().flat_map(rows).collect();
        kept.sort_by_key(|row| order(&row.promise));
        let seen: Vec<_> = kept.iter().map(|row| (row.promise.as_str(), row.verdict.as_str())).collect();
        assert_eq!(
            seen,
            [("C1", "host too noisy: stolen"), ("S1", "not measured"), ("S2", "MISSED"), ("S10", "met")]
        );
        let text = Table(&kept).to_string();
        assert!(text.ends_with("1 MISSED, 1 host too noisy, 1 met, 1 not measured"), "{text}");
    }
}
