//! Namespaces and their keys.

use flint_model::{Namespace, NamespaceLimits};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An owner of functions, activations and limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NamespaceResource {
    /// Its name.
    #[schema(example = "shop")]
    pub name: String,
    /// What differs from the server's limits: `invocationsPerMinute`, `concurrentInvocations`, `firesPerMinute`, `allowedKinds`, `storeActivations`, `minActionMemory`, `maxActionMemory`, `minActionLogs`, `maxActionLogs` (MB), `minActionTimeout`, `maxActionTimeout` (ms), `minActionConcurrency`, `maxActionConcurrency`, `maxActionInstances`, `maxParameterSize`, `maxPayloadSize`, `truncationSize` (bytes, or a text such as `2 MB`), `warmedContainerKeepingCount`, `warmedContainerKeepingTimeout` (`10min`).
    #[schema(value_type = Object)]
    pub limits: NamespaceLimits,
    /// Its keys do not work.
    pub blocked: bool,
    /// When it was created, in milliseconds since 1970.
    pub created: u64,
    /// Its keys' public halves.
    #[serde(default)]
    pub keys: Vec<KeyResource>,
}

/// The public half of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyResource {
    /// The UUID.
    pub id: String,
    /// On whose behalf it calls.
    pub subject: String,
    /// When it was made, in milliseconds since 1970.
    pub created: u64,
}

/// A namespace to create.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamespaceCreate {
    /// Its name.
    pub name: String,
    /// On whose behalf its first key calls; absent = the namespace's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What differs from the server's limits.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub limits: NamespaceLimits,
}

/// What to change of a namespace; absent = as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NamespacePatch {
    /// Limits that replace those of the namespace as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub limits: Option<NamespaceLimits>,
    /// Whether its keys stop working.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<bool>,
}

/// A key that was just made. Its secret is shown this once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyCreated {
    /// What it opens.
    pub namespace: String,
    /// On whose behalf it calls.
    pub subject: String,
    /// The whole key, `uuid:secret`.
    pub key: String,
}

impl From<&Namespace> for NamespaceResource {
    fn from(namespace: &Namespace) -> Self {
        Self {
            name: namespace.name.to_string(),
            limits: namespace.limits.clone(),
            blocked: namespace.blocked,
            created: namespace.created.as_millis(),
            keys: Vec::new(),
        }
    }
}
