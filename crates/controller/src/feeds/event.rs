//! Messages in the form in which an event carries them.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use flint_model::{FeedPayload, NatsSource};
use flint_nats::Message;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

/// The event's member for messages, besides the feed's payload.
const MESSAGES: &str = "messages";

/// Builds an event of at most `most` bytes from as many of the first `messages` as fit, at least one; returns
/// the event and their number. For a message too large for an event of its own, the event states this and
/// where the message is.
pub(crate) fn event_of(
    source: &NatsSource,
    payload: &FeedPayload,
    messages: &[Message],
    most: usize,
) -> (String, usize) {
    let mut beside = payload.members();
    beside.remove(MESSAGES);
    // Serialising these values cannot fail.
    let mut event = serde_json::to_string(&beside).unwrap_or_else(|_| "{}".to_owned());
    event.pop();
    if event.len() > 1 {
        event.push(',');
    }
    event.push_str(&format!("{}:[", Value::from(MESSAGES)));
    // Less the two closing brackets; each message but the first also takes a comma.
    let mut room = most.saturating_sub(event.len() + 2);
    let mut taken = 0;
    for message in messages {
        let text = Shown::of(source, message).text();
        if text.len() + usize::from(taken > 0) > room {
            break;
        }
        if taken > 0 {
            event.push(',');
        }
        room -= text.len() + usize::from(taken > 0);
        event.push_str(&text);
        taken += 1;
    }
    if let (0, Some(first)) = (taken, messages.first()) {
        event.push_str(&too_large(first).to_string());
        taken = 1;
    }
    event.push_str("]}");
    (event, taken)
}

/// The placeholder for a message that does not fit into an event.
fn too_large(message: &Message) -> Value {
    let mut shown = json!({
        "subject": message.subject,
        "error": "this message is larger than an event may be (limits.max_payload), and is not among it",
        "size": message.payload.len(),
    });
    if let Some(sequence) = message.sequence {
        shown["sequence"] = json!(sequence);
    }
    shown
}

/// A message, with the names of OpenWhisk's Kafka feed where it has them.
#[derive(Serialize)]
struct Shown<'a> {
    subject: &'a str,
    value: Shape<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<&'a str, Vec<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Shape<'a> {
    /// Verbatim, so that numbers keep their digits.
    Json(&'a RawValue),
    Text(&'a str),
    Base64(String),
}

impl<'a> Shown<'a> {
    fn of(source: &NatsSource, message: &'a Message) -> Self {
        let json = source.json.then(|| serde_json::from_slice(&message.payload).ok()).flatten();
        let (value, encoding) = match (json, std::str::from_utf8(&message.payload)) {
            (Some(json), _) => (Shape::Json(json), None),
            (None, Ok(text)) if !source.base64 => (Shape::Text(text), None),
            _ => (Shape::Base64(STANDARD.encode(&message.payload)), Some("base64")),
        };
        let mut headers = BTreeMap::<_, Vec<_>>::new();
        for (name, value) in &message.headers {
            headers.entry(name.as_str()).or_default().push(value.as_str());
        }
        Self { subject: &message.subject, value, encoding, headers, sequence: message.sequence }
    }

    /// The message as JSON.
    fn text(&self) -> String {
        // Serialising these values cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Map;

    use super::*;

    fn source(json: bool, base64: bool) -> NatsSource {
        serde_json::from_value(json!({"servers": ["a"], "subject": "s", "json": json, "base64": base64}))
            .unwrap()
    }

    fn message(payload: &[u8]) -> Message {
        Message {
            subject: "s".to_owned(),
            payload: payload.to_vec().into(),
            headers: Vec::new(),
            sequence: None,
        }
    }

    fn value(source: &NatsSource, payload: &[u8]) -> Value {
        let (event, count) = event_of(source, &FeedPayload::default(), &[message(payload)], 10_000);
        assert_eq!(count, 1);
        let event: Value = serde_json::from_str(&event).unwrap();
        event["messages"][0].clone()
    }

    #[test]
    fn a_message_is_text_json_or_base64() {
        let plain = source(false, false);
        assert_eq!(value(&plain, b"{\"a\": 1}"), json!({"subject": "s", "value": "{\"a\": 1}"}));
        assert_eq!(
            value(&plain, b"\xff\x00"),
            json!({"subject": "s", "value": "/wA=", "encoding": "base64"})
        );
        assert_eq!(value(&source(true, false), b"{\"a\": 1}")["value"], json!({"a": 1}));
        assert_eq!(value(&source(true, false), b"no json")["value"], "no json");
        let numbers = br#"{"id": 12345678901234567890123, "price": 1.10}"#;
        let (event, _) = event_of(&source(true, false), &FeedPayload::default(), &[message(numbers)], 10_000);
        assert!(event.contains(std::str::from_utf8(numbers).unwrap()), "{event}");
        assert_eq!(
            value(&source(false, true), b"hi"),
            json!({"subject": "s", "value": "aGk=", "encoding": "base64"})
        );
    }

    #[test]
    fn headers_and_numbers_come_along_and_the_payload_stays() {
        let headers = vec![("A".to_owned(), "1".to_owned()), ("A".to_owned(), "2".to_owned())];
        let one = Message { headers, sequence: Some(7), ..message(b"x") };
        let payload = Map::from_iter([("tenant".to_owned(), json!({"n": 1}))]).into();
        let (event, _) = event_of(&source(false, false), &payload, &[one], 10_000);
        let event: Value = serde_json::from_str(&event).unwrap();
        assert_eq!(
            event,
            json!({
                "tenant": {"n": 1},
                "messages": [{"subject": "s", "value": "x", "headers": {"A": ["1", "2"]}, "sequence": 7}],
            })
        );
    }

    #[test]
    fn of_a_message_that_is_too_large_the_event_says_so() {
        // It takes more in JSON than on the wire.
        let large = Message { sequence: Some(7), ..message(&[1; 100]) };
        let (event, count) =
            event_of(&source(false, false), &FeedPayload::default(), &[large, message(b"x")], 300);
        let event: Value = serde_json::from_str(&event).unwrap();
        let shown = &event["messages"][0];
        assert_eq!((count, event["messages"].as_array().unwrap().len()), (1, 1));
        assert_eq!(
            (&shown["subject"], &shown["sequence"], &shown["size"]),
            (&json!("s"), &json!(7), &json!(100))
        );
        assert!(
            shown["error"].as_str().unwrap().contains("limits.max_payload") && shown.get("value").is_none()
        );
    }

    proptest! {
        /// For any messages: each is in one event, in order, and every event is JSON within the size limit.
        #[test]
        fn no_message_is_left_out(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..20),
            beside in prop::collection::btree_map("[a-z]{1,9}", ".{0,20}", 0..4),
            most in 0_usize..2000,
            (as_json, as_base64) in any::<(bool, bool)>(),
        ) {
            let source = source(as_json, as_base64);
            let payload: Map<String, Value> = beside.into_iter().map(|(key, text)| (key, text.into())).collect();
            let messages: Vec<_> = payloads.iter().enumerate()
                .map(|(at, payload)| Message { sequence: Some(at as u64), ..message(payload) })
                .collect();
            let given = FeedPayload::from(payload.clone());
            let mut from = 0;
            while from < messages.len() {
                let (event, count) = event_of(&source, &given, &messages[from..], most);
                let parsed: Map<String, Value> = serde_json::from_str(&event).unwrap();
                let shown = parsed["messages"].as_array().unwrap();
                let numbers: Vec<_> = shown.iter().map(|one| one["sequence"].as_u64().unwrap() as usize).collect();
                prop_assert_eq!(numbers, (from..from + count).collect::<Vec<_>>());
                let refused = shown[0].get("error").is_some();
                prop_assert!(event.len() <= most || refused, "{} bytes of {most}", event.len());
                prop_assert!(payload.iter().all(|(key, value)| key == "messages" || parsed.get(key) == Some(value)));
                from += count;
            }
        }
    }
}
