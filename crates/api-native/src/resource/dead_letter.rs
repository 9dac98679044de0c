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
    /// The activation that it was, 32 hex digits.
    pub id: String,
    /// What it called, `namespace/[package/]name`.
    pub function: String,
    /// On whose behalf.
    pub subject: String,
    /// Why there is no further attempt: `attempts_used`, `too_old`, `too_many_waiting` or `function_gone`.
    #[schema(value_type = String, example = "attempts_used")]
    pub reason: DeadLetterReason,
    /// When it was accepted, in milliseconds since 1970.
    pub accepted: u64,
    /// When it was given up, in milliseconds since 1970.
    pub died: u64,
    /// The dead letter that it was before it was redriven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// All its attempts.
    pub attempts: Vec<AttemptResource>,
    /// The size of its arguments in bytes.
    pub arguments_size: u64,
    /// Its arguments, before defaults are merged; absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<Box<RawValue>>,
}

/// Dead letters, the one that was given up last first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DeadLetterList {
    /// A page of them, without arguments.
    pub dead_letters: Vec<DeadLetterResource>,
    /// How many the namespace has in all.
    pub total: usize,
    /// What they take in bytes.
    pub size: u64,
}

/// Which letters to redrive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RedriveRequest {
    /// Only calls of this function, `name` or `package/name`; absent = all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// At most so many, up to 1000; absent = 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// A letter that is a call again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RedrivenResource {
    /// The letter that it was.
    pub letter: String,
    /// The activation that it is now: `GET /v1/activations/{id}` has the result when it has ended.
    pub activation: String,
}

/// What came of redriving several, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RedriveResult {
    /// Those that are calls again; each of them is durable.
    pub redriven: Vec<RedrivenResource>,
    /// What stopped it before all of them were; those left are letters as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<ErrorDetail>,
    /// How many letters the namespace has now.
    pub left: usize,
}

/// How many letters are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemovedLetters {
    /// So many.
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
