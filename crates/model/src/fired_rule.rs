//! What became of a rule when its trigger fired.

use serde::{Deserialize, Serialize};

use crate::{ActivationId, EntityPath, FunctionPath, Status};

/// A rule of a trigger that has fired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FiredRule {
    /// The rule.
    pub rule: EntityPath,
    /// What it calls.
    pub action: FunctionPath,
    /// What became of it.
    pub outcome: RuleOutcome,
}

/// What became of a rule when its trigger fired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleOutcome {
    /// Its action's call was accepted.
    Called {
        /// As this activation.
        activation: ActivationId,
    },
    /// It was not.
    Refused {
        /// Whose fault that is.
        status: Status,
        /// Why.
        error: String,
    },
}
