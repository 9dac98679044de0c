//! Entity versions: three numbers, of which every overwrite bumps the last.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A semantic version, `major.minor.patch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

/// Why a text is not a version.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' is not a version: write three numbers, for example '0.0.1'")]
pub struct VersionError(String);

impl Version {
    /// The version of a newly created entity, `0.0.1`.
    pub const FIRST: Self = Self { major: 0, minor: 0, patch: 1 };

    /// The version that the next overwrite gets; `None` after the last number that there is.
    #[must_use]
    pub fn bump(self) -> Option<Self> {
        Some(Self { patch: self.patch.checked_add(1)?, ..self })
    }

    /// Major, minor and patch.
    pub const fn numbers(self) -> [u32; 3] {
        [self.major, self.minor, self.patch]
    }
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || VersionError(text.to_owned());
        let mut numbers = text.splitn(3, '.').map(|part| part.parse::<u32>());
        let mut next = || numbers.next().and_then(Result::ok).ok_or_else(wrong);
        Ok(Self { major: next()?, minor: next()?, patch: next()? })
    }
}

impl TryFrom<String> for Version {
    type Error = VersionError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overwrite_bumps_the_patch() {
        let bumped = |text: &str| text.parse::<Version>().unwrap().bump().map(|next| next.to_string());
        assert_eq!(Version::FIRST.bump().map(|next| next.to_string()).as_deref(), Some("0.0.2"));
        assert_eq!(bumped("1.2.3").as_deref(), Some("1.2.4"));
        assert_eq!(bumped("0.0.4294967295"), None, "no number is given twice");
        for bad in ["", "1", "1.2", "1.2.x", "1.2.3.4"] {
            assert!(bad.parse::<Version>().is_err(), "{bad}");
        }
    }
}
