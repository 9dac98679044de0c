//! Serialises a record as JSON by hand, for speed.
//!
//! The result is byte for byte that of `serde_json`. Every call of the server is written this way, and the
//! derived serialiser takes a tenth of the time of a short call: it copies each name and id into a string of
//! its own, and checks every field name for characters to escape.

use flint_model::{Activation, Response, Timeline, Usage, hex};
use serde::Serialize;

/// What precedes a result.
pub(crate) const RESULT: &[u8] = b",\"result\":";

/// Appends `record` without its logs, which are written separately.
pub(crate) fn encode(record: &Activation, out: &mut Vec<u8>) -> serde_json::Result<()> {
    // Destructured, so that a new field cannot be forgotten here.
    let Activation {
        id,
        namespace,
        name,
        path,
        version,
        kind,
        subject,
        cause,
        start,
        end,
        duration_us,
        init_us,
        wait_us,
        timeline,
        response,
        usage,
        timed_out,
        attempts,
        logs,
        components,
        fired,
        annotations,
    } = record;
    out.extend_from_slice(b"{\"id\":\"");
    out.extend_from_slice(&hex(id.as_u128()));
    // Names contain no characters that JSON escapes.
    out.extend_from_slice(b"\",\"namespace\":\"");
    out.extend_from_slice(namespace.as_str().as_bytes());
    out.extend_from_slice(b"\",\"name\":\"");
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b"\",\"path\":\"");
    out.extend_from_slice(path.namespace.as_str().as_bytes());
    for name in path.package.iter().chain([&path.name]) {
        out.push(b'/');
        out.extend_from_slice(name.as_str().as_bytes());
    }
    let [major, minor, patch] = version.numbers();
    field(out, b"\",\"version\":\"", &major)?;
    field(out, b".", &minor)?;
    field(out, b".", &patch)?;
    out.push(b'"');
    if let Some(kind) = kind {
        text(out, b",\"kind\":", kind.as_str())?;
    }
    text(out, b",\"subject\":", subject)?;
    if let Some(cause) = cause {
        field(out, b",\"cause\":", cause)?;
    }
    field(out, b",\"start\":", start)?;
    field(out, b",\"end\":", end)?;
    field(out, b",\"duration_us\":", duration_us)?;
    if let Some(init) = init_us {
        field(out, b",\"init_us\":", init)?;
    }
    field(out, b",\"wait_us\":", wait_us)?;
    self::timeline(timeline, out)?;
    self::response(response, out)?;
    self::usage(usage, out)?;
    if *timed_out {
        out.extend_from_slice(b",\"timed_out\":true");
    }
    list(out, b",\"attempts\":", attempts)?;
    list(out, b",\"logs\":", logs)?;
    list(out, b",\"components\":", components)?;
    list(out, b",\"fired\":", fired)?;
    out.extend_from_slice(b",\"annotations\":");
    out.extend_from_slice(annotations.json()?.as_bytes());
    out.push(b'}');
    Ok(())
}

fn timeline(timeline: &Timeline, out: &mut Vec<u8>) -> serde_json::Result<()> {
    let Timeline { queued, placed, started, restored, initialised, ran, collected } = timeline;
    out.extend_from_slice(b",\"timeline\":{");
    let begin = out.len();
    let stations: [(&[u8], _); 7] = [
        (b"\"queued\":", queued),
        (b"\"placed\":", placed),
        (b"\"started\":", started),
        (b"\"restored\":", restored),
        (b"\"initialised\":", initialised),
        (b"\"ran\":", ran),
        (b"\"collected\":", collected),
    ];
    for (key, station) in stations {
        optional(out, begin, key, station.as_ref())?;
    }
    out.push(b'}');
    Ok(())
}

fn response(response: &Response, out: &mut Vec<u8>) -> serde_json::Result<()> {
    let Response { status, result, size, content_type } = response;
    field(out, b",\"response\":{\"status\":", status)?;
    if let Some(result) = result {
        out.extend_from_slice(RESULT);
        out.extend_from_slice(result.get().as_bytes());
    }
    field(out, b",\"size\":", size)?;
    if let Some(content_type) = content_type {
        text(out, b",\"content_type\":", content_type)?;
    }
    out.push(b'}');
    Ok(())
}

fn usage(usage: &Usage, out: &mut Vec<u8>) -> serde_json::Result<()> {
    let Usage { cpu_us, memory_peak } = usage;
    out.extend_from_slice(b",\"usage\":{");
    let begin = out.len();
    optional(out, begin, b"\"cpu_us\":", cpu_us.as_ref())?;
    optional(out, begin, b"\"memory_peak\":", memory_peak.as_ref())?;
    out.push(b'}');
    Ok(())
}

/// `key` is everything that precedes the value.
fn field(out: &mut Vec<u8>, key: &[u8], value: &impl Serialize) -> serde_json::Result<()> {
    out.extend_from_slice(key);
    serde_json::to_writer(out, value)
}

fn list<T: Serialize>(out: &mut Vec<u8>, key: &[u8], list: &[T]) -> serde_json::Result<()> {
    if list.is_empty() { Ok(()) } else { field(out, key, &list) }
}

/// An optional field of the object whose fields begin at `begin`.
fn optional(
    out: &mut Vec<u8>,
    begin: usize,
    key: &[u8],
    value: Option<&impl Serialize>,
) -> serde_json::Result<()> {
    let Some(value) = value else { return Ok(()) };
    if out.len() > begin {
        out.push(b',');
    }
    field(out, key, value)
}

/// A string, which rarely contains characters to escape.
fn text(out: &mut Vec<u8>, key: &[u8], text: &str) -> serde_json::Result<()> {
    // Branchless, so that it is vectorised.
    let is_special = |byte: u8| (byte < 0x20) | (byte == b'"') | (byte == b'\\');
    if text.bytes().fold(false, |special, byte| special | is_special(byte)) {
        return field(out, key, &text);
    }
    out.extend_from_slice(key);
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
    Ok(())
}

#[cfg(test)]
mod tests {
    use flint_model::{ActivationId, Attempt, FiredRule, LogLine, LogStream, RuleOutcome, Status, Timestamp};
    use proptest::{option, prelude::*};
    use serde_json::json;

    use super::*;

    fn record() -> Activation {
        serde_json::from_value(json!({
            "id": "01a2072678ab7477a74803d4faf00882", "namespace": "guest", "name": "called", "path": "guest/called", "version": "1.22.333",
            "subject": "guest", "start": 1, "end": 2, "duration_us": 3, "wait_us": 4, "timeline": {}, "response": {"status": "success"}
        }))
        .unwrap()
    }

    fn as_serde_writes(record: &Activation) {
        let mut written = b"before".to_vec();
        encode(record, &mut written).unwrap();
        let expected = format!("before{}", serde_json::to_string(record).unwrap());
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }

    fn status() -> impl Strategy<Value = Status> {
        prop::sample::select(vec![
            Status::Success,
            Status::ApplicationError,
            Status::DeveloperError,
            Status::InternalError,
        ])
    }

    fn number() -> impl Strategy<Value = Option<u64>> {
        option::of(any::<u64>())
    }

    #[test]
    fn a_record_with_nothing_optional() {
        as_serde_writes(&record());
    }

    proptest! {
        #[test]
        fn names_and_texts(
            names in ("[A-Za-z0-9_]([A-Za-z0-9_@ .&-]{0,20}[a-z])?", option::of("[A-Za-z0-9_]([A-Za-z0-9_@ .&-]{0,20}[a-z])?")),
            id: u128, cause: Option<u128>, subject: String, content_type in option::of(any::<String>()), kind in option::of("[a-z0-9.-]{1,9}(:[a-z0-9.-]{1,9})?"),
        ) {
            let mut record = record();
            let (name, package) = names;
            record.id = ActivationId::from_u128(id);
            record.cause = cause.map(ActivationId::from_u128);
            record.namespace = name.parse().unwrap();
            record.name = name.parse().unwrap();
            record.path.name = name.parse().unwrap();
            record.path.package = package.map(|name| name.parse().unwrap());
            record.subject = subject;
            record.kind = kind.map(|kind| kind.parse().unwrap());
            record.response.content_type = content_type;
            as_serde_writes(&record);
        }

        #[test]
        fn numbers(
            times: (u64, u64, u64, u64), init in number(), usage in (number(), number()), status in status(), size: u64, timed_out: bool,
            queued in number(), placed in number(), started in number(), restored in number(), initialised in number(), ran in number(), collected in number(),
        ) {
            let mut record = record();
            record.start = Timestamp::from_millis(times.0);
            record.end = Timestamp::from_millis(times.1);
            record.duration_us = times.2;
            record.wait_us = times.3;
            record.init_us = init;
            record.usage = Usage { cpu_us: usage.0, memory_peak: usage.1.map(flint_model::ByteSize::bytes) };
            record.response.status = status;
            record.response.size = flint_model::ByteSize::bytes(size);
            record.timed_out = timed_out;
            record.timeline = Timeline { queued, placed, started, restored, initialised, ran, collected };
            as_serde_writes(&record);
        }

        #[test]
        fn lists_results_and_annotations(word: String, count in 0..3_usize, status in status()) {
            let mut record = record();
            let id = record.id;
            let attempt = Attempt { activation: Some(id), ..Attempt::new(Timestamp::from_millis(7), word.clone()) };
            record.attempts = vec![attempt; count];
            record.logs = vec![LogLine { time_us: 1, stream: LogStream::Stderr, text: word.clone() }; count];
            record.components = vec![id; count];
            let fired = |outcome| FiredRule { rule: "guest/rule".parse().unwrap(), action: "guest/pack/called".parse().unwrap(), outcome };
            record.fired = vec![fired(RuleOutcome::Called { activation: id }); count];
            record.fired.extend(vec![fired(RuleOutcome::Refused { status, error: word.clone() }); count]);
            record.response.result = (count > 0).then(|| serde_json::value::to_raw_value(&json!({ &word: [word, null, 1.5] })).unwrap());
            for n in 0..count {
                record.annotations.set(format!("{word}{n}"), json!({ "b": &word, "a": n }));
            }
            as_serde_writes(&record);
        }
    }
}
