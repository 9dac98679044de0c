//! Counts failed calls by kind: they are never left out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ArmError;

/// Number of failed calls by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures(BTreeMap<String, Failed>);

/// The failures of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// How many.
    pub calls: u64,
    /// The first of them, as an example.
    pub example: String,
}

/// Further kinds are combined under one name, so that a server with arbitrary statuses takes no memory.
const KINDS: usize = 64;

impl Failures {
    /// Adds a failure.
    pub fn add(&mut self, error: &ArmError) {
        self.add_many(&error.kind(), 1, &error.to_string());
    }

    /// Adds the failures of another load.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(kind, failed)| self.add_many(kind, failed.calls, &failed.example));
    }

    pub(crate) fn add_many(&mut self, kind: &str, calls: u64, example: &str) {
        let kind = if self.0.len() < KINDS || self.0.contains_key(kind) { kind } else { "other" };
        self.0
            .entry(kind.to_owned())
            .or_insert_with(|| Failed { calls: 0, example: example.chars().take(300).collect() })
            .calls += calls;
    }

    /// The total number.
    pub fn calls(&self) -> u64 {
        self.0.values().map(|failed| failed.calls).sum()
    }

    /// Kind by kind.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, &Failed)> {
        self.0.iter().map(|(kind, failed)| (kind.as_str(), failed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_apart_and_bounded() {
        let mut failures = Failures::default();
        for status in 0..1000 {
            failures.add(&ArmError::Status { status, expected: 200, body: "no".into() });
        }
        failures.add(&ArmError::Timeout(std::time::Duration::from_secs(3)));
        assert_eq!((failures.calls(), failures.kinds().count()), (1001, KINDS + 1));
        let (kind, failed) = failures.kinds().find(|(kind, _)| *kind == "status 1").unwrap();
        assert_eq!((kind, failed.calls, &*failed.example), ("status 1", 1, "status 1 instead of 200: no"));
        assert_eq!(failures.kinds().find(|(kind, _)| *kind == "other").unwrap().1.calls, 1001 - 64);
    }
}
