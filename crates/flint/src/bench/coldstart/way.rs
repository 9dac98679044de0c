//! The ways of bringing up a function.

use super::workload::Language;
use crate::failure::Failure;

/// A server's settings; each server is started only if an arm needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    /// No standby clones: each call that needs an instance waits for its start.
    Plain,
    /// Standby clones by default.
    Standbys,
    /// No standby clones, and snapshots in pages of the usual size.
    SmallPages,
}

impl Setting {
    pub(super) const fn environment(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Plain => &[("FLINT_SNAPSHOT__STANDBYS", "0")],
            Self::Standbys => &[],
            Self::SmallPages => &[("FLINT_SNAPSHOT__STANDBYS", "0"), ("FLINT_SNAPSHOT__HUGE_PAGES", "false")],
        }
    }
}

/// How an instance is made, and how long it stays.
#[derive(Debug)]
pub(super) struct Way {
    /// The arm's name; that of its warm calls, if it has any.
    pub(super) name: &'static str,
    /// The name of the arm of cold calls, if instances are kept.
    pub(super) cold: Option<&'static str>,
    /// The name of the arm of calls right after another one, if each call makes an instance; `name` is then
    /// that of calls after a rest.
    pub(super) next: Option<&'static str>,
    /// `--start`; `None`: a process without Flint and without sandbox.
    pub(super) start: Option<&'static str>,
    pub(super) reuse: &'static str,
    /// Called with an event before the snapshot.
    pub(super) warmed_up: bool,
    pub(super) setting: Setting,
    /// Only part of the factor analysis.
    pub(super) factor: bool,
}

pub(super) const PROCESS: &str = "process";
pub(super) const SPAWN_NEVER: &str = "spawn-never";
pub(super) const SPAWN_COLD: &str = "spawn-warm-cold";
pub(super) const SPAWN_WARM: &str = "spawn-warm";
pub(super) const UNWARMED: &str = "fork-never-unwarmed";
pub(super) const SMALL_PAGES: &str = "fork-never-small-pages";
pub(super) const FORK_NEVER: &str = "fork-never";
pub(super) const STANDBY: &str = "fork-never-standby";
pub(super) const FORK_COLD: &str = "fork-warm-cold";
pub(super) const FORK_WARM: &str = "fork-warm";
pub(super) const SPAWN_NEXT: &str = "spawn-never-next";
pub(super) const FORK_NEXT: &str = "fork-never-next";

/// An instance for each call.
const fn never(name: &'static str, start: Option<&'static str>, next: Option<&'static str>) -> Way {
    let setting = Setting::Plain;
    Way { name, cold: None, next, start, reuse: "never", warmed_up: true, setting, factor: false }
}

/// Instances that are kept.
const fn warm(name: &'static str, start: &'static str, cold: &'static str) -> Way {
    let start = Some(start);
    Way { cold: Some(cold), next: None, reuse: "warm", ..never(name, start, None) }
}

/// All ways, in the order of a round.
pub(super) const WAYS: &[Way] = &[
    Way { factor: true, ..never(PROCESS, None, Some("process-next")) },
    never(SPAWN_NEVER, Some("spawn"), Some(SPAWN_NEXT)),
    warm(SPAWN_WARM, "spawn", SPAWN_COLD),
    Way { factor: true, warmed_up: false, ..never(UNWARMED, Some("fork"), Some("fork-never-unwarmed-next")) },
    Way {
        factor: true,
        setting: Setting::SmallPages,
        ..never(SMALL_PAGES, Some("fork"), Some("fork-never-small-pages-next"))
    },
    never(FORK_NEVER, Some("fork"), Some(FORK_NEXT)),
    Way { setting: Setting::Standbys, ..never(STANDBY, Some("fork"), None) },
    warm(FORK_WARM, "fork", FORK_COLD),
];

impl Way {
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        WAYS.iter().find(|way| way.name == name)
    }

    pub(super) fn is_fork(&self) -> bool {
        self.start == Some("fork")
    }

    /// Whether it applies to this function.
    pub(super) fn suits(&self, function: &str, language: Language) -> bool {
        let kernel = ["empty", "fact", "matrix-mult"].iter().any(|kernel| function.starts_with(kernel));
        match self.name {
            STANDBY => function.starts_with("empty"),
            UNWARMED => kernel,
            // The unsandboxed process gets one file, and numba's folder is not deployed more often than
            // needed.
            PROCESS | SMALL_PAGES => kernel && language != Language::Numba,
            _ => true,
        }
    }

    /// The names of its arms in the report.
    pub(super) fn arms(&self) -> impl Iterator<Item = &'static str> {
        self.cold.into_iter().chain([self.name]).chain(self.next)
    }

    /// Whether this is its arm of calls after a rest that had to wait for an instance.
    pub(super) fn is_cold(&self, arm: &str) -> bool {
        match (self.cold, self.next) {
            (Some(cold), _) => arm == cold,
            (None, Some(_)) => arm == self.name,
            // At an interval there are no rests.
            (None, None) => false,
        }
    }
}

/// The selection by `--arms`: `arm`, or `arm:function`; by default everything.
#[derive(Debug)]
pub(super) struct Selection(Vec<(String, Option<String>)>);

impl Selection {
    /// `known` are all pairs of arm and function.
    pub(super) fn new(asked: &[String], known: &[(String, &str)]) -> Result<Self, Failure> {
        let chosen: Vec<_> = asked
            .iter()
            .map(|text| match text.split_once(':') {
                Some((arm, function)) => (arm.to_owned(), Some(function.to_owned())),
                None => (text.clone(), None),
            })
            .collect();
        for (arm, function) in &chosen {
            let matches = |(known, of): &(String, &str)| {
                known == arm && function.as_deref().is_none_or(|function| function == *of)
            };
            if !known.iter().any(matches) {
                let mut names: Vec<_> = known.iter().map(|(arm, _)| arm.as_str()).collect();
                names.sort_unstable();
                names.dedup();
                let of = function.as_ref().map(|function| format!(":{function}")).unwrap_or_default();
                return Err(Failure::usage(format!(
                    "there is no arm '{arm}{of}': choose ARM or ARM:FUNCTION from {}",
                    names.join(", ")
                )));
            }
        }
        Ok(Self(chosen))
    }

    pub(super) fn has(&self, arm: &str, function: &str) -> bool {
        self.0.is_empty()
            || self.0.iter().any(|(name, of)| name == arm && of.as_deref().is_none_or(|of| of == function))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_are_chosen_by_name_and_function() {
        let known = [("a".to_owned(), "f"), ("a".to_owned(), "g"), ("b".to_owned(), "f")];
        let chosen = |asked: &[&str]| {
            let asked: Vec<_> = asked.iter().map(|&text| text.to_owned()).collect();
            Selection::new(&asked, &known)
                .map(|selection| known.iter().map(|(arm, of)| selection.has(arm, of)).collect::<Vec<_>>())
        };
        assert_eq!(chosen(&[]).unwrap(), [true, true, true]);
        assert_eq!(chosen(&["a"]).unwrap(), [true, true, false]);
        assert_eq!(chosen(&["a:g", "b"]).unwrap(), [false, true, true]);
        let error = chosen(&["b:g"]).unwrap_err().to_string();
        assert_eq!(error, "there is no arm 'b:g': choose ARM or ARM:FUNCTION from a, b");
    }

    #[test]
    fn every_arm_has_a_name_of_its_own() {
        let mut names: Vec<_> = WAYS.iter().flat_map(Way::arms).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), count), (15, 15));
    }

    #[test]
    fn cold_is_what_came_after_a_rest() {
        let of_way = |way: &'static Way| way.arms().filter(|arm| way.is_cold(arm)).collect::<Vec<_>>();
        let cold: Vec<_> = WAYS.iter().flat_map(of_way).collect();
        assert_eq!(cold, [PROCESS, SPAWN_NEVER, SPAWN_COLD, UNWARMED, SMALL_PAGES, FORK_NEVER, FORK_COLD]);
    }
}
