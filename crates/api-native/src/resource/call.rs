//! Accepted calls that are not over.

use flint_model::{Timestamp, show_duration};
use flint_store::{CallPhase, CallState};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::AttemptResource;

/// An accepted call that has not ended, or is a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CallResource {
    /// Id of the call's activation, 32 hex digits.
    pub id: String,
    /// The function called, `namespace/[package/]name`.
    pub function: String,
    /// State of the call.
    pub state: CallStateWord,
    /// Time of acceptance, in milliseconds since 1970.
    pub accepted: u64,
    /// Time of the next attempt, in milliseconds since 1970; only in the state `delayed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<u64>,
    /// What the host lacks to run the call; only if the call is put off, in the state `delayed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put_off: Option<String>,
    /// Number of attempts that have begun.
    pub begun: u32,
    /// Total number of attempts that the call may have.
    pub max_attempts: u32,
    /// Attempts that have ended.
    pub attempts: Vec<AttemptResource>,
    /// The retry policy that the call was accepted with, as readable text.
    pub policy: String,
    /// The dead letter that the call was redriven from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// State of an accepted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallStateWord {
    /// Waiting for its turn.
    Waiting,
    /// Failed before or put off, and waiting for its next attempt.
    Delayed,
    /// An attempt is running.
    Running,
    /// All attempts are used; its record is about to be written.
    Exhausted,
    /// A dead letter.
    DeadLetter,
}

impl From<CallState> for CallResource {
    fn from(state: CallState) -> Self {
        let CallState { call, phase, begun, attempts } = state;
        let (word, due, put_off) = match phase {
            CallPhase::Waiting => (CallStateWord::Waiting, None, None),
            CallPhase::Delayed(due) => (CallStateWord::Delayed, Some(due), None),
            CallPhase::PutOff { until, why } => (CallStateWord::Delayed, Some(until), Some(why)),
            CallPhase::Running => (CallStateWord::Running, None, None),
            CallPhase::Exhausted => (CallStateWord::Exhausted, None, None),
            CallPhase::Dead => (CallStateWord::DeadLetter, None, None),
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
            due: due.map(Timestamp::as_millis),
            put_off,
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

#[cfg(test)]
mod tests {
    use flint_model::{ActivationId, RetryPolicy};
    use flint_store::QueuedCall;

    use super::*;

    #[test]
    fn a_call_that_is_put_off_is_delayed_and_says_why() {
        let call = QueuedCall {
            activation: ActivationId::generate(),
            namespace: "guest".parse().unwrap(),
            subject: "guest".to_owned(),
            path: "guest/f".parse().unwrap(),
            arguments: Default::default(),
            transaction: "t".to_owned(),
            accepted: Timestamp::from_millis(7),
            policy: RetryPolicy::default(),
            cause: None,
            promised: false,
        };
        let phase = CallPhase::PutOff { until: Timestamp::from_millis(8), why: "no node".to_owned() };
        let shown = CallResource::from(CallState { call, phase, begun: 0, attempts: Vec::new() });
        let said = (shown.state, shown.due, shown.put_off.as_deref());
        assert_eq!(said, (CallStateWord::Delayed, Some(8), Some("no node")));
    }
}
