//! Versions of a function, and aliases.

use flint_controller::History;
use flint_model::{Alias, Function};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::CodeResource;

/// A version of a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VersionResource {
    /// Its number.
    #[schema(example = "0.0.3")]
    pub version: String,
    /// The write that made it.
    pub revision: u64,
    /// Whether it is the newest: the one that is shown and changed by the function's name.
    pub newest: bool,
    /// The earlier version that it is again, when a rollback made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "0.0.1")]
    pub restored: Option<String>,
    /// Its runtime.
    #[schema(example = "nodejs:20")]
    pub kind: String,
    /// Its code.
    pub code: CodeResource,
    /// The aliases that name it.
    pub aliases: Vec<String>,
    /// When it was deployed, in milliseconds since 1970.
    pub updated: u64,
}

/// Versions of a function that can be called, the latest first, and its aliases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VersionList {
    /// The newest, and earlier ones that are kept.
    pub versions: Vec<VersionResource>,
    /// Its aliases in order of name.
    pub aliases: Vec<AliasResource>,
}

/// A name for one version, or for several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AliasResource {
    /// Its name. What `live` names is what calls by the function's bare name get.
    #[schema(example = "live")]
    pub name: String,
    /// What it names.
    pub versions: Vec<AliasTargetResource>,
    /// When this was said, in milliseconds since 1970.
    pub updated: u64,
}

/// One of the versions that an alias names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AliasTargetResource {
    /// Which one.
    #[schema(example = "0.0.3")]
    pub version: String,
    /// Its share of the calls is this over the sum of all; 1 to 1000000.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub weight: u32,
}

fn one() -> u32 {
    1
}

/// What an alias is to name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AliasRequest {
    /// 1 to 8 versions that are there.
    #[schema(min_items = 1, max_items = 8)]
    pub versions: Vec<AliasTargetResource>,
}

/// Which version is to be what calls get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RollbackRequest {
    /// Its number; absent = the version before the newest.
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
