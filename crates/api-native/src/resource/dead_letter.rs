//! Dead letters.

use flint_model::{Attempt, DeadLetterReason};
use flint_store::DeadLetter;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{AttemptResource, ErrorDetail};

/// An accepted call that failed for good.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DeadLetterResource {
    /// Activation id of the call, 32 hex digits.
    pub id: String,
    /// The function called, `namespace/[package/]name`.
    pub function: String,
    /// The subject of the key that made the call.
    pub subject: String,
    /// Why there are no more attempts: `attempts_used`, `too_old`, `too_many_waiting` or `function_gone`.
    #[schema(value_type = String, example = "attempts_used")]
    pub reason: DeadLetterReason,
    /// Time of acceptance, in milliseconds since 1970.
    pub accepted: u64,
    /// Time at which the call was given up, in milliseconds since 1970.
    pub died: u64,
    /// The dead letter that this call was redriven from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// All attempts of the call.
    pub attempts: Vec<AttemptResource>,
    /// Size of the arguments, in bytes.
    pub arguments_size: u64,
    /// The call's own arguments, without the function's default arguments; absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<Box<RawValue>>,
}

/// Dead letters, the most recently given up first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DeadLetterList {
    /// One page of dead letters, without arguments.
    pub dead_letters: Vec<DeadLetterResource>,
    /// Number of dead letters in the namespace.
    pub total: usize,
    /// Total size of the namespace's dead letters, in bytes.
    pub size: u64,
}

/// Selects the dead letters to redrive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RedriveRequest {
    /// Only calls of this function, `name` or `package/name`; absent = all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Maximum number of letters, up to 1000; absent = 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// A dead letter that was accepted as a new call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RedrivenResource {
    /// Id of the dead letter.
    pub letter: String,
    /// Activation id of the new call. `GET /v1/activations/{id}` returns its result once it has ended.
    pub activation: String,
}

/// Result of redriving several dead letters, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RedriveResult {
    /// The letters that are calls again, each of them durable.
    pub redriven: Vec<RedrivenResource>,
    /// The error that stopped the redrive early; the remaining letters are unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<ErrorDetail>,
    /// Number of dead letters left in the namespace.
    pub left: usize,
}

/// Result of deleting dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemovedLetters {
    /// Number of letters deleted.
    pub removed: usize,
}

impl From<Attempt> for AttemptResource {
    fn from(attempt: Attempt) -> Self {
        Self {
            start: attempt.start.as_millis(),
            ended_by: attempt.ended_by,
            activation: attempt.activation.map(|id| id.to_string()),
        }
    }
}

impl From<DeadLetter> for DeadLetterResource {
    fn from(letter: DeadLetter) -> Self {
        let DeadLetter { call, arguments, reason, died, attempts } = letter;
        // Accepted arguments are a JSON object or empty.
        let own = String::from_utf8(call.arguments.to_vec()).ok().filter(|text| !text.trim().is_empty());
        Self {
            id: call.activation.to_string(),
            function: call.path.to_string(),
            subject: call.subject,
            reason,
            accepted: call.accepted.as_millis(),
            died: died.as_millis(),
            cause: call.cause.map(|id| id.to_string()),
            attempts: attempts.into_iter().map(AttemptResource::from).collect(),
            arguments_size: arguments.as_u64(),
            arguments: own.and_then(|text| RawValue::from_string(text).ok()),
        }
    }
}
