//! Activation records.

use flint_model::{Activation, LogLine, Status, Timeline};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use utoipa::ToSchema;

/// The record of one call.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ActivationResource {
    /// Activation id, 32 hex digits.
    pub id: String,
    /// The caller's namespace.
    pub namespace: String,
    /// The function, `namespace/[package/]name`.
    pub function: String,
    /// The function's version.
    pub version: String,
    /// The function's runtime; absent when the call failed before it was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The subject of the key that made the call.
    pub subject: String,
    /// The activation that this one belongs to: the sequence or composition it is a step of, the call it is an attempt of, or the dead letter it was redriven from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Outcome: `success`, `application_error`, `developer_error` or `internal_error`.
    #[schema(value_type = String, example = "success")]
    pub status: Status,
    /// Whether the deadline ended the call; absent = no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    /// Time at which loading or running began, in milliseconds since 1970; of a call with several attempts, the last one.
    pub start: u64,
    /// End time, in milliseconds since 1970.
    pub end: u64,
    /// Loading and running time together, in µs.
    pub duration_us: u64,
    /// Loading time, in µs; present only for a cold start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_us: Option<u64>,
    /// Time from arrival until loading or running began, in µs.
    pub wait_us: u64,
    /// Time of each stage, in µs since the call arrived. Stages that the call did not pass are absent.
    #[schema(value_type = Object, example = json!({"queued": 21, "placed": 30, "ran": 912, "collected": 990}))]
    pub timeline: Timeline,
    /// The JSON result; absent when the answer was not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub result: Option<Box<RawValue>>,
    /// Size of the answer, in bytes; of a streamed one, as much as was sent.
    pub size: u64,
    /// Media type of the answer when it was not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Resources that the call used.
    pub usage: UsageResource,
    /// Earlier attempts of an asynchronous call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<AttemptResource>,
    /// Activation ids of the steps of a sequence or composition, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<String>,
    /// Log lines; absent in lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub logs: Vec<LogLine>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub annotations: Map<String, Value>,
}

/// Resources that a call used. Figures that the host cannot measure are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageResource {
    /// CPU time, in µs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us: Option<u64>,
    /// Peak memory of the instance so far, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
}

/// An earlier attempt of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AttemptResource {
    /// Start time, in milliseconds since 1970.
    pub start: u64,
    /// What ended the attempt.
    pub ended_by: String,
    /// Activation id of the attempt's own record, with its logs; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation: Option<String>,
}

/// Activation records, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ActivationList {
    /// One page of records.
    pub activations: Vec<ActivationResource>,
}

/// The word for a status that this API uses in headers and bodies.
pub trait StatusWord {
    /// `success`, `application_error`, `developer_error` or `internal_error`.
    fn word(self) -> &'static str;
}

impl StatusWord for Status {
    fn word(self) -> &'static str {
        match self {
            Status::Success => "success",
            Status::ApplicationError => "application_error",
            Status::DeveloperError => "developer_error",
            Status::InternalError => "internal_error",
        }
    }
}

impl From<Activation> for ActivationResource {
    fn from(record: Activation) -> Self {
        Self {
            id: record.id.to_string(),
            namespace: record.namespace.to_string(),
            function: record.path.to_string(),
            version: record.version.to_string(),
            kind: record.kind.map(|kind| kind.to_string()),
            subject: record.subject,
            cause: record.cause.map(|id| id.to_string()),
            status: record.response.status,
            timed_out: record.timed_out,
            start: record.start.as_millis(),
            end: record.end.as_millis(),
            duration_us: record.duration_us,
            init_us: record.init_us,
            wait_us: record.wait_us,
            timeline: record.timeline,
            result: record.response.result,
            size: record.response.size.as_u64(),
            content_type: record.response.content_type,
            usage: UsageResource {
                cpu_us: record.usage.cpu_us,
                memory_peak_bytes: record.usage.memory_peak.map(|size| size.as_u64()),
            },
            attempts: record.attempts.into_iter().map(AttemptResource::from).collect(),
            components: record.components.iter().map(ToString::to_string).collect(),
            logs: record.logs,
            annotations: record
                .annotations
                .iter()
                .map(|(key, value)| (key.to_owned(), value.clone()))
                .collect(),
        }
    }
}
