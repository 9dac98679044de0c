//! Why a function runs the way it does.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{FunctionResource, StrategyResource};

/// Why a function runs the way it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FunctionExplanation {
    /// The function.
    pub function: FunctionResource,
    /// How the function is run; differs from its strategy after a fallback.
    pub strategy: StrategyResource,
    /// Reasons for the strategy, one per line.
    pub reasons: Vec<String>,
    /// The possible strategies, the chosen one included, and whether each works on this host.
    pub considered: Vec<StrategyVerdict>,
    /// What the host lacks for this function, and how to get it.
    pub lacking: Vec<String>,
}

/// One way to run a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StrategyVerdict {
    /// The strategy, `isolation/start/reuse×concurrency`.
    pub strategy: String,
    /// The executor that would run it; absent if none would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    /// Whether this strategy was chosen.
    pub picked: bool,
    /// Why it was chosen, or not.
    pub why: String,
}
