//! The record of one call.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    ActivationId, Annotations, ByteSize, EntityName, FiredRule, FunctionPath, Kind, LogLine, NamespaceName,
    Timeline, Timestamp, Version,
};

/// The record of one activation: what was called, what came of it, what it used and what it logged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Activation {
    /// Its id; ids are in order of arrival.
    pub id: ActivationId,
    /// The invoking namespace: the one that owns the record.
    pub namespace: NamespaceName,
    /// The bare name of what was called.
    pub name: EntityName,
    /// The resolved function, which may belong to another namespace.
    pub path: FunctionPath,
    /// The function's version.
    pub version: Version,
    /// The function's runtime; absent when the call failed before that was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// On whose behalf.
    pub subject: String,
    /// The activation that this one belongs to: the enclosing sequence or composition; of an attempt that was made again, the call; of a
    /// redriven call, the one that had become a dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<ActivationId>,
    /// When the last attempt's initialisation or run began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// Initialisation and run together, in µs.
    pub duration_us: u64,
    /// Initialisation, in µs; only when this call brought its instance into being.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_us: Option<u64>,
    /// From arrival to the beginning of initialisation or run, in µs.
    pub wait_us: u64,
    /// Its stations.
    pub timeline: Timeline,
    /// What came of it.
    pub response: Response,
    /// What it used.
    #[serde(default)]
    pub usage: Usage,
    /// The deadline ended it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    /// Attempts before the one recorded here (asynchronous calls only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// What it logged, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<LogLine>,
    /// The activations that a sequence or composition consists of, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<ActivationId>,
    /// What became of the rules of a trigger; a record with any is that of a trigger, not of a call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fired: Vec<FiredRule>,
    /// Front-specific annotations, such as `limits`.
    #[serde(default)]
    pub annotations: Annotations,
}

impl Activation {
    /// The name that it is listed under: the called name with the package that it was called in, or the binding that it was called through.
    pub fn listed_name(&self, out: &mut String) {
        out.clear();
        let binding = self.annotations.get("binding").and_then(|binding| binding.as_str());
        let bound = binding.and_then(|binding| Some(binding.split_once('/')?.1));
        if let Some(package) = bound.or(self.path.package.as_ref().map(|package| package.as_str())) {
            out.push_str(package);
            out.push('/');
        }
        out.push_str(self.name.as_str());
    }
}

/// An attempt that was not the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// When it began.
    pub start: Timestamp,
    /// What ended it.
    pub ended_by: String,
    /// Its own record, where it has one: it came to an end, and its namespace keeps records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation: Option<ActivationId>,
}

impl Attempt {
    /// How much is kept of what ended an attempt; its own record has the rest.
    const SHOWN: usize = 1024;

    /// An attempt without a record of its own.
    pub fn new(start: Timestamp, ended_by: impl Into<String>) -> Self {
        let mut ended_by = ended_by.into();
        if ended_by.len() > Self::SHOWN {
            ended_by.truncate(ended_by.floor_char_boundary(Self::SHOWN));
            ended_by.push('…');
        }
        Self { start, ended_by, activation: None }
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The function answered.
    Success,
    /// The function answered with an error of its own (`{"error": …}`).
    ApplicationError,
    /// The function did not answer: it is broken, crashed, or exceeded a limit.
    DeveloperError,
    /// Flint could not run it.
    InternalError,
}

impl Status {
    /// OpenWhisk's words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::ApplicationError => "application error",
            Self::DeveloperError => "action developer error",
            Self::InternalError => "whisk internal error",
        }
    }

    /// OpenWhisk's number, 0 to 3.
    pub const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::ApplicationError => 1,
            Self::DeveloperError => 2,
            Self::InternalError => 3,
        }
    }
}

/// What came of a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Response {
    /// How it ended.
    pub status: Status,
    /// The JSON result; absent when the answer was not JSON (its bytes went to the caller only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// The answer's size.
    #[serde(default)]
    pub size: ByteSize,
    /// The answer's media type when it was not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// What a call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time of the whole instance during the call, in µs; absent where the host cannot tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us: Option<u64>,
    /// The instance's highest memory so far; absent where the host cannot tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak: Option<ByteSize>,
}
