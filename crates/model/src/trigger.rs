//! A trigger: a name for events of one sort, to which rules attach functions.

use serde::{Deserialize, Serialize};

use crate::{Annotations, EntityName, EntityPath, NamespaceName, Parameters, Timestamp, Version};

/// A trigger. Which rules it has is found in the catalog: each rule says its trigger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trigger {
    /// The owner.
    pub namespace: NamespaceName,
    /// Its name. A trigger is never in a package.
    pub name: EntityName,
    /// The version that users see.
    pub version: Version,
    /// Counts every write of this name over all time, deletions included.
    pub revision: u64,
    /// Kept because clients set it.
    #[serde(default)]
    pub publish: bool,
    /// What is known about it; `feed` names the function that fires it.
    #[serde(default)]
    pub annotations: Annotations,
    /// Default arguments of every event.
    #[serde(default)]
    pub parameters: Parameters,
    /// When this revision was written.
    pub updated: Timestamp,
}

impl Trigger {
    /// Where it is found.
    pub fn path(&self) -> EntityPath {
        EntityPath::new(self.namespace.clone(), self.name.clone())
    }
}
