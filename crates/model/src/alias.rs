//! Names for versions of a function, and how calls are spread over several.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{ActivationId, EntityName, FunctionPath, Timestamp, Version, splitmix};

/// The longest name, in characters.
const MAX_LENGTH: usize = 64;

/// The most versions that calls are spread over.
const MAX_TARGETS: usize = 8;

/// The largest weight.
const MAX_WEIGHT: u32 = 1_000_000;

/// Why something is not an alias.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AliasError {
    /// A name with a character that is not allowed, or one that is empty or too long.
    #[error(
        "'{0}' cannot be the name of an alias: a letter, then letters, digits, _ and -, up to {most} characters",
        most = MAX_LENGTH
    )]
    Name(String),
    /// No version, or too many.
    #[error("an alias names 1 to {most} versions, not {0}", most = MAX_TARGETS)]
    Count(usize),
    /// A version twice.
    #[error("version {0} is named twice: give it one weight")]
    Twice(Version),
    /// A weight that is none.
    #[error("{weight} cannot be the weight of version {version}: 1 to {most} can", most = MAX_WEIGHT)]
    Weight {
        /// Of which version.
        version: Version,
        /// What it was to be.
        weight: u32,
    },
}

/// The name of an alias: a letter, then letters, digits, `_` and `-`. So it is never a version.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AliasName(Arc<str>);

impl AliasName {
    /// The alias that says what calls by the function's bare name get.
    pub const LIVE: &str = "live";

    /// [`Self::LIVE`] as a name.
    pub fn live() -> Self {
        Self(Self::LIVE.into())
    }

    /// Checks the rules of names.
    pub fn parse(text: &str) -> Result<Self, AliasError> {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
        match begins && text.len() <= MAX_LENGTH && text.bytes().all(inner) {
            true => Ok(Self(text.into())),
            false => Err(AliasError::Name(text.to_owned())),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AliasName {
    type Err = AliasError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl TryFrom<String> for AliasName {
    type Error = AliasError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<AliasName> for String {
    fn from(name: AliasName) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl fmt::Display for AliasName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for AliasName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// One of the versions that an alias names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AliasTarget {
    /// Which one.
    pub version: Version,
    /// Its share of the calls is this over the sum of all.
    pub weight: u32,
}

/// A name for one version of a function, or for several with weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alias {
    /// Of which function.
    pub path: FunctionPath,
    /// Its name.
    pub name: AliasName,
    /// What it names.
    pub targets: Vec<AliasTarget>,
    /// When this was said.
    pub updated: Timestamp,
}

impl Alias {
    /// An alias of what can be one. Whether the function has those versions is for the store to know.
    pub fn new(
        path: FunctionPath,
        name: AliasName,
        targets: Vec<AliasTarget>,
        updated: Timestamp,
    ) -> Result<Self, AliasError> {
        if targets.is_empty() || targets.len() > MAX_TARGETS {
            return Err(AliasError::Count(targets.len()));
        }
        for (at, target) in targets.iter().enumerate() {
            if !(1..=MAX_WEIGHT).contains(&target.weight) {
                return Err(AliasError::Weight { version: target.version, weight: target.weight });
            }
            if targets[..at].iter().any(|other| other.version == target.version) {
                return Err(AliasError::Twice(target.version));
            }
        }
        Ok(Self { path, name, targets, updated })
    }

    /// Whether it names that version.
    pub fn names(&self, version: Version) -> bool {
        self.targets.iter().any(|target| target.version == version)
    }
}

/// Which of several weighted choices a call gets. The choice is drawn by the call's own id, so that all attempts at one call, and all steps of
/// one composition, get the same.
pub fn drawn(call: ActivationId, weights: impl Iterator<Item = u32> + Clone) -> usize {
    let sum: u64 = weights.clone().map(u64::from).sum();
    let mut lot = mixed(call) % sum.max(1);
    for (at, weight) in weights.enumerate() {
        match lot.checked_sub(u64::from(weight)) {
            Some(rest) => lot = rest,
            None => return at,
        }
    }
    0
}

fn mixed(call: ActivationId) -> u64 {
    let number = call.as_u128();
    splitmix::finalise((number as u64) ^ ((number >> 64) as u64).rotate_left(32))
}

/// What stands behind the `@` of `function@…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Qualifier {
    /// That version.
    Version(Version),
    /// What that alias names.
    Alias(AliasName),
}

impl Qualifier {
    /// Splits a name at its last `@`; `None` where the parts are not a name and a qualifier. Names may contain an `@` themselves: an entity of the
    /// whole name takes precedence.
    pub fn split(name: &EntityName) -> Option<(EntityName, Self)> {
        let (name, qualifier) = name.as_str().rsplit_once('@')?;
        let qualifier = match qualifier.parse() {
            Ok(version) => Self::Version(version),
            Err(_) => Self::Alias(qualifier.parse().ok()?),
        };
        Some((EntityName::parse(name).ok()?, qualifier))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(version: &str, weight: u32) -> AliasTarget {
        AliasTarget { version: version.parse().unwrap(), weight }
    }

    fn alias(targets: Vec<AliasTarget>) -> Result<Alias, AliasError> {
        Alias::new("guest/f".parse().unwrap(), AliasName::live(), targets, Timestamp::from_millis(1))
    }

    #[test]
    fn a_name_is_never_a_version() {
        for good in ["live", "a", "Blue-2", "x_y"] {
            assert!(AliasName::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "0.0.1", "1", "-a", "a b", "a@b", "a.b", "é", &"x".repeat(65)] {
            assert!(AliasName::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn targets_are_few_distinct_and_weighted() {
        assert!(alias(vec![target("0.0.1", 1), target("0.0.2", MAX_WEIGHT)]).is_ok());
        assert_eq!(alias(Vec::new()).unwrap_err(), AliasError::Count(0));
        let many = (0..9).map(|patch| target(&format!("0.0.{patch}"), 1)).collect();
        assert_eq!(alias(many).unwrap_err(), AliasError::Count(9));
        assert!(matches!(
            alias(vec![target("0.0.1", 1), target("0.0.1", 2)]).unwrap_err(),
            AliasError::Twice(_)
        ));
        for weight in [0, MAX_WEIGHT + 1] {
            assert!(matches!(alias(vec![target("0.0.1", weight)]).unwrap_err(), AliasError::Weight { .. }));
        }
    }

    #[test]
    fn a_name_is_taken_apart_at_its_last_at() {
        let split = |name: &str| Qualifier::split(&name.parse().unwrap());
        let (name, qualifier) = split("f@0.0.3").unwrap();
        assert_eq!((name.as_str(), qualifier), ("f", Qualifier::Version("0.0.3".parse().unwrap())));
        let (name, qualifier) = split("a@b@live").unwrap();
        assert_eq!((name.as_str(), qualifier), ("a@b", Qualifier::Alias(AliasName::live())));
        for none in ["f", "f@", "f@1", "f@0.0", "f@a b", "f @live"] {
            assert_eq!(split(none), None, "{none}");
        }
    }

    #[test]
    fn calls_are_spread_by_weight_and_one_call_always_gets_the_same() {
        let weights = [1, 9, 90];
        let mut got = [0_usize; 3];
        for _ in 0..20_000 {
            let call = ActivationId::generate();
            let at = drawn(call, weights.iter().copied());
            assert_eq!(at, drawn(call, weights.iter().copied()));
            got[at] += 1;
        }
        // Six standard deviations around 200, 1800 and 18000.
        for (got, expected, around) in [(got[0], 200, 85), (got[1], 1800, 245), (got[2], 18_000, 255)] {
            assert!(got.abs_diff(expected) < around, "{got} of {expected}");
        }
        assert_eq!(drawn(ActivationId::generate(), [7].into_iter()), 0);
    }
}
