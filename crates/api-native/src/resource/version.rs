//! Versions of a function, and aliases.

use flint_controller::History;
use flint_model::{Alias, Function};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::CodeResource;

/// A version of a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VersionResource {
    /// Version number.
    #[schema(example = "0.0.3")]
    pub version: String,
    /// The write that created the version.
    pub revision: u64,
    /// Whether this is the newest version, which the function's name shows and changes.
    pub newest: bool,
    /// The earlier version that a rollback restored as this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "0.0.1")]
    pub restored: Option<String>,
    /// The runtime.
    #[schema(example = "nodejs:20")]
    pub kind: String,
    /// The code.
    pub code: CodeResource,
    /// Aliases that name this version.
    pub aliases: Vec<String>,
    /// Time of deployment, in milliseconds since 1970.
    pub updated: u64,
}

/// Versions of a function that can be called, newest first, and its aliases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VersionList {
    /// The newest version, and the earlier ones that are kept.
    pub versions: Vec<VersionResource>,
    /// The aliases, sorted by name.
    pub aliases: Vec<AliasResource>,
}

/// A name for one or several versions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AliasResource {
    /// Alias name. Calls by the function's bare name use the alias `live`, if there is one.
    #[schema(example = "live")]
    pub name: String,
    /// The versions that the alias names.
    pub versions: Vec<AliasTargetResource>,
    /// Time of the last change, in milliseconds since 1970.
    pub updated: u64,
}

/// One of the versions that an alias names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AliasTargetResource {
    /// Version number.
    #[schema(example = "0.0.3")]
    pub version: String,
    /// Relative share of the calls: this over the sum of all weights; 1 to 1000000, absent = 1.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub weight: u32,
}

fn one() -> u32 {
    1
}

/// The versions that an alias names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AliasRequest {
    /// 1 to 8 existing versions.
    #[schema(min_items = 1, max_items = 8)]
    pub versions: Vec<AliasTargetResource>,
}

/// The version to roll back to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RollbackRequest {
    /// Version number; absent = the version before the newest. Required if there is an alias `live`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "0.0.1")]
    pub to: Option<String>,
}

impl From<History> for VersionList {
    fn from(history: History) -> Self {
        let newest = history.versions.first().map(|newest| newest.revision);
        let shown = |function: &Function| VersionResource {
            version: function.version.to_string(),
            revision: function.revision,
            newest: Some(function.revision) == newest,
            restored: function.restored.map(|version| version.to_string()),
            kind: function.kind.to_string(),
            code: (&function.code).into(),
            aliases: history
                .aliases
                .iter()
                .filter(|alias| alias.names(function.version))
                .map(|alias| alias.name.to_string())
                .collect(),
            updated: function.updated.as_millis(),
        };
        Self {
            versions: history.versions.iter().map(shown).collect(),
            aliases: history.aliases.iter().map(AliasResource::from).collect(),
        }
    }
}

impl From<&Alias> for AliasResource {
    fn from(alias: &Alias) -> Self {
        let targets = alias.targets.iter();
        Self {
            name: alias.name.to_string(),
            versions: targets
                .map(|target| AliasTargetResource {
                    version: target.version.to_string(),
                    weight: target.weight,
                })
                .collect(),
            updated: alias.updated.as_millis(),
        }
    }
}
