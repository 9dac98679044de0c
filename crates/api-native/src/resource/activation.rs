//! Activation records.

use flint_model::{Activation, LogLine, Status, Timeline};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use utoipa::ToSchema;

/// The record of one call.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ActivationResource {
    /// Its id, 32 hex digits.
    pub id: String,
    /// The caller's namespace.
    pub namespace: String,
    /// The function, `namespace/[package/]name`.
    pub function: String,
    /// Its version.
    pub version: String,
    /// Its runtime; absent when the call failed before that was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// On whose behalf.
    pub subject: String,
    /// The activation that this one belongs to: the sequence or composition that it is a step of, the call that it is an attempt at, or the dead letter
    /// that it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// How it ended.
    #[schema(value_type = String, example = "success")]
    pub status: Status,
    /// The deadline ended it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    /// When it began, in milliseconds since 1970.
    pub start: u64,
    /// When it ended, in milliseconds since 1970.
    pub end: u64,
    /// Loading and running together, in µs.
    pub duration_us: u64,
    /// Loading, in µs; present only when the call was cold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_us: Option<u64>,
    /// Waiting, in µs.
    pub wait_us: u64,
    /// Its stations, in µs since its arrival.
    #[schema(value_type = Object, example = json!({"queued": 21, "placed": 30, "ran": 912, "collected": 990}))]
    pub timeline: Timeline,
    /// The JSON result; absent when the answer was not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub result: Option<Box<RawValue>>,
    /// The answer's size in bytes.
    pub size: u64,
    /// The answer's media type when it was not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// What it used.
    pub usage: UsageResource,
    /// Earlier attempts, of an asynchronous call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<AttemptResource>,
    /// The activations that a sequence or composition consists of, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<String>,
    /// What it logged; absent in lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub logs: Vec<LogLine>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub annotations: Map<String, Value>,
}

/// What a call used; absent figures are those that the host cannot tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageResource {
    /// CPU time in µs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us: Option<u64>,
    /// The instance's highest memory so far, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
}

/// An attempt that was not the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AttemptResource {
    /// When it began, in milliseconds since 1970.
    pub start: u64,
    /// What ended it.
    pub ended_by: String,
    /// Its own record, with its logs; absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation: Option<String>,
}

/// Activations, the latest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ActivationList {
    /// A page of them.
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
