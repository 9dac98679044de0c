//! The JSON of activation records.

use flint_model::{Activation, ActivationId, NamespaceName, Response, Status, Version};
use serde::{Serialize, Serializer, ser::SerializeSeq};
use serde_json::{Value, json, value::RawValue};

use super::{fired_lines, log_line};

/// A complete record.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record<'a> {
    #[serde(flatten)]
    common: Common<'a>,
    subject: &'a str,
    response: ResponseBody<'a>,
    #[serde(serialize_with = "logs")]
    logs: &'a Activation,
}

/// A record in lists.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Summary<'a> {
    #[serde(flatten)]
    common: Common<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_code: Option<u8>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Common<'a> {
    namespace: &'a NamespaceName,
    name: &'a str,
    version: Version,
    publish: bool,
    #[serde(serialize_with = "annotations")]
    annotations: &'a Activation,
    activation_id: ActivationId,
    start: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<ActivationId>,
}

/// `response`.
#[derive(Serialize)]
pub(crate) struct ResponseBody<'a> {
    status: &'static str,
    success: bool,
    result: ResultOf<'a>,
    size: u64,
}

/// The result; `{}` if the answer was not JSON and went only to the caller.
#[derive(Serialize)]
#[serde(untagged)]
enum ResultOf<'a> {
    Json(&'a RawValue),
    Elsewhere {},
}

impl<'a> ResponseBody<'a> {
    pub(crate) fn of(response: &'a Response) -> Self {
        Self {
            status: response.status.as_str(),
            success: response.status == Status::Success,
            result: response.result.as_deref().map_or(ResultOf::Elsewhere {}, ResultOf::Json),
            size: response.size.as_u64(),
        }
    }
}

impl<'a> Record<'a> {
    pub(crate) fn of(record: &'a Activation) -> Self {
        Self {
            common: Common::of(record),
            subject: &record.subject,
            response: ResponseBody::of(&record.response),
            logs: record,
        }
    }
}

impl<'a> Summary<'a> {
    pub(crate) fn of(record: &'a Activation) -> Self {
        let status_code = is_call(record).then(|| record.response.status.code());
        Self { common: Common::of(record), status_code }
    }
}

impl<'a> Common<'a> {
    fn of(record: &'a Activation) -> Self {
        Self {
            namespace: &record.namespace,
            name: record.name.as_str(),
            version: record.version,
            publish: false,
            annotations: record,
            activation_id: record.id,
            start: record.start.as_millis(),
            end: is_call(record).then(|| record.end.as_millis()),
            duration: is_call(record).then_some(record.duration_us / 1000),
            cause: record.cause,
        }
    }
}

/// False for a trigger's record, which has no end, since firing takes no time.
fn is_call(record: &Activation) -> bool {
    record.fired.is_empty()
}

/// The record's annotations, then those that only this API has.
fn annotations<S: Serializer>(record: &Activation, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Pair<'a, T: Serialize> {
        key: &'a str,
        value: T,
    }
    let mut list = serializer.serialize_seq(None)?;
    if !is_call(record) {
        return list.end();
    }
    list.serialize_element(&Pair { key: "path", value: &record.path })?;
    let kind = record.kind.as_ref().map_or("unknown", |kind| kind.as_str());
    list.serialize_element(&Pair { key: "kind", value: kind })?;
    list.serialize_element(&Pair { key: "timeout", value: record.timed_out })?;
    list.serialize_element(&Pair { key: "waitTime", value: record.wait_us / 1000 })?;
    if let Some(init_us) = record.init_us {
        list.serialize_element(&Pair { key: "initTime", value: init_us / 1000 })?;
    }
    if !record.attempts.is_empty() {
        let ended_by: Vec<Value> = record
            .attempts
            .iter()
            .map(|attempt| {
                let mut shown = json!({"start": attempt.start.as_millis(), "endedBy": attempt.ended_by});
                if let Some(id) = attempt.activation {
                    shown["activationId"] = id.to_string().into();
                }
                shown
            })
            .collect();
        list.serialize_element(&Pair { key: "attempts", value: ended_by })?;
    }
    for (key, value) in record.annotations.iter() {
        list.serialize_element(&Pair { key, value })?;
    }
    list.end()
}

/// The log lines; for a sequence, the ids of its activations.
fn logs<S: Serializer>(record: &Activation, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(shown_logs(record))
}

/// The `logs` of a record: for a trigger, the outcomes of its rules; otherwise its components' activations
/// and its log lines.
pub(crate) fn shown_logs(record: &Activation) -> Vec<String> {
    let components = record.components.iter().map(ToString::to_string);
    fired_lines(record).chain(components).chain(record.logs.iter().map(log_line)).collect()
}
