//! Accepted calls that are not over.

use flint_model::show_duration;
use flint_store::{CallPhase, CallState};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::AttemptResource;

/// An accepted call that is not over, or is a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CallResource {
    /// The activation that it will be, 32 hex digits.
    pub id: String,
    /// What it calls, `namespace/[package/]name`.
    pub function: String,
    /// Where it is.
    pub state: CallStateWord,
    /// When it was accepted, in milliseconds since 1970.
    pub accepted: u64,
    /// When its next attempt is due, in milliseconds since 1970; of one in the state `delayed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<u64>,
    /// Attempts that have begun.
    pub begun: u32,
    /// Attempts that it may have in all.
    pub max_attempts: u32,
    /// What became of the attempts that have ended.
    pub attempts: Vec<AttemptResource>,
    /// The policy that it was accepted with, for people.
    pub policy: String,
    /// The dead letter that it was before it was redriven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// Where an accepted call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallStateWord {
    /// It waits for its turn.
    Waiting,
    /// It failed before and waits for its next attempt.
    Delayed,
    /// An attempt is under way.
    Running,
    /// It had all its attempts; its record is about to be there.
    Exhausted,
    /// It is a dead letter.
    DeadLetter,
}

impl From<CallState> for CallResource {
    fn from(state: CallState) -> Self {
        let CallState { call, phase, begun, attempts } = state;
        let (word, due) = match phase {
            CallPhase::Waiting => (CallStateWord::Waiting, None),
            CallPhase::Delayed(due) => (CallStateWord::Delayed, Some(due.as_millis())),
            CallPhase::Running => (CallStateWord::Running, None),
            CallPhase::Exhausted => (CallStateWord::Exhausted, None),
            CallPhase::Dead => (CallStateWord::DeadLetter, None),
        };
        let policy = &call.policy;
        let age =
            policy.max_age.map(|age| format!(", none after {}", show_duration(age))).unwrap_or_default();
        let on = if policy.on.iter().next().is_some() { policy.on.to_string() } else { "nothing".to_owned() };
        Self {
            id: call.activation.to_string(),
            function: call.path.to_string(),
            state: word,
            accepted: call.accepted.as_millis(),
            due,
            begun,
            max_attempts: policy.max_attempts,
            attempts: attempts.into_iter().map(AttemptResource::from).collect(),
            policy: format!(
                "{} attempts, again after {}; back-off {} up to {}{age}",
                policy.max_attempts,
                on,
                show_duration(policy.backoff),
                show_duration(policy.max_backoff),
            ),
            cause: call.cause.map(|id| id.to_string()),
        }
    }
}
