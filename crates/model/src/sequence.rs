//! A sequence: functions called one after the other, each with the answer of the one before.

use serde::{Deserialize, Serialize};

use crate::{Annotations, FunctionLimits, FunctionPath, Timestamp, Version};

/// A sequence. It is called as a function is, and shares the functions' names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sequence {
    /// Where it is found.
    pub path: FunctionPath,
    /// The version that users see.
    pub version: Version,
    /// Counts every write of this path over all time, deletions included.
    pub revision: u64,
    /// Kept because clients set it.
    #[serde(default)]
    pub publish: bool,
    /// What is known about it.
    #[serde(default)]
    pub annotations: Annotations,
    /// What is called, in order: functions and sequences.
    pub components: Vec<FunctionPath>,
    /// Kept because clients set them; each component has its own.
    pub limits: FunctionLimits,
    /// When this revision was written.
    pub updated: Timestamp,
}
