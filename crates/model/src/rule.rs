//! A rule: when that trigger fires, call this function.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Annotations, EntityName, EntityPath, FunctionPath, NamespaceName, Timestamp, Version};

/// A rule. It may outlive its trigger and its function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// The owner.
    pub namespace: NamespaceName,
    /// Its name. A rule is never in a package.
    pub name: EntityName,
    /// The version that users see.
    pub version: Version,
    /// Counts every write of this name over all time, deletions included.
    pub revision: u64,
    /// Kept because clients set it.
    #[serde(default)]
    pub publish: bool,
    /// What is known about it.
    #[serde(default)]
    pub annotations: Annotations,
    /// What it listens to.
    pub trigger: EntityPath,
    /// What it calls.
    pub action: FunctionPath,
    /// Whether it does.
    pub status: RuleStatus,
    /// When this revision was written.
    pub updated: Timestamp,
}

impl Rule {
    /// Where it is found.
    pub fn path(&self) -> EntityPath {
        EntityPath::new(self.namespace.clone(), self.name.clone())
    }
}

/// Whether a rule calls its function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleStatus {
    /// It does.
    #[default]
    Active,
    /// It waits to be enabled.
    Inactive,
}

impl RuleStatus {
    /// `active` or `inactive`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Inactive => "inactive",
        }
    }
}

/// Why a text is not a status.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' is not a status of a rule: write 'active' or 'inactive'")]
pub struct RuleStatusError(String);

impl FromStr for RuleStatus {
    type Err = RuleStatusError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "active" => Ok(Self::Active),
            "inactive" => Ok(Self::Inactive),
            _ => Err(RuleStatusError(text.to_owned())),
        }
    }
}

impl fmt::Display for RuleStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_reads_back_and_nothing_else_is_one() {
        for status in [RuleStatus::Active, RuleStatus::Inactive] {
            assert_eq!(status.to_string().parse(), Ok(status));
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
        for bad in ["", "Active", "on"] {
            assert!(bad.parse::<RuleStatus>().is_err(), "{bad}");
        }
    }
}
