//! Why a function runs the way it does.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{FunctionResource, StrategyResource};

/// Why a function runs the way it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FunctionExplanation {
    /// The function.
    pub function: FunctionResource,
    /// How it is run: its strategy, unless it fell back.
    pub strategy: StrategyResource,
    /// Why so, one reason a line.
    pub reasons: Vec<String>,
    /// Strategies that would hold, or would not, on this host.
    pub considered: Vec<StrategyVerdict>,
    /// What the host lacks for it, with what to do.
    pub lacking: Vec<String>,
}

/// One way to run a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StrategyVerdict {
    /// The strategy, `isolation/start/reuse×concurrency`.
    pub strategy: String,
    /// Which executor would run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    /// It is the one that was picked.
    pub picked: bool,
    /// Why it was picked, or not.
    pub why: String,
}
