//! What happened to a call, and when.

use serde::{Deserialize, Serialize};

/// The stations of one activation, each in µs since the call arrived. A station that a call does not pass is absent.
///
/// `queued → placed → started → restored → initialised → ran → collected`; `started` and `initialised` only when
/// the call brought its instance into being, `restored` only when that came from a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// Admitted: authenticated, entitled, within limits, its parameters merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<u64>,
    /// An instance, or the right to start one, was assigned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<u64>,
    /// The sandbox is up and the runtime answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<u64>,
    /// The snapshot is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<u64>,
    /// The function's code is loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialised: Option<u64>,
    /// The function answered; for a stream, its last byte was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<u64>,
    /// Logs and usage are collected; the instance is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collected: Option<u64>,
}
