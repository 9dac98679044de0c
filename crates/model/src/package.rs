//! A package: functions that share parameters and are shared with others as one.

use serde::{Deserialize, Serialize};

use crate::{Annotations, EntityName, EntityPath, NamespaceName, Parameters, Timestamp, Version};

/// A package, or a binding: another package under a name and with parameters of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Package {
    /// The owner.
    pub namespace: NamespaceName,
    /// Its name; functions in it are `namespace/name/function`.
    pub name: EntityName,
    /// The version that users see.
    pub version: Version,
    /// Counts every write of this name over all time, deletions included.
    pub revision: u64,
    /// Everyone may read it, bind to it and call what is in it.
    #[serde(default)]
    pub publish: bool,
    /// What is known about it.
    #[serde(default)]
    pub annotations: Annotations,
    /// Default arguments of everything in it. Those of a binding override its provider's.
    #[serde(default)]
    pub parameters: Parameters,
    /// The package that it stands for, its provider; then it holds no function of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<EntityPath>,
    /// When this revision was written.
    pub updated: Timestamp,
}

impl Package {
    /// Where it is found.
    pub fn path(&self) -> EntityPath {
        EntityPath::new(self.namespace.clone(), self.name.clone())
    }

    /// Whether everybody may use it: it is published, and no binding, which is its owner's alone.
    pub fn is_shared(&self) -> bool {
        self.publish && self.binding.is_none()
    }
}
