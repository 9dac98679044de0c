//! The outcome of a call: its status and result, in the terms of the OpenWhisk API.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use flint_executor::{BodyError, Fault, Reply, ReplyHead, media_type};
use flint_model::{ByteSize, LogLine, LogStream, Response, Status, show_duration};
use http::{HeaderMap, HeaderValue, StatusCode, header::CONTENT_TYPE};
use serde_json::{json, value::RawValue};

use crate::json_body::{error_member, is_document, may_have_error};

/// The end of a call, as its record and its caller see it.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) response: Response,
    /// The answer as HTTP, if it is one and the caller can take it.
    pub(crate) http: Option<(StatusCode, HeaderMap, Bytes)>,
    pub(crate) timed_out: bool,
    /// Why this host cannot run the function now, for example because its runtime or a key is missing: nothing
    /// of the call was tried.
    pub(crate) untried: Option<String>,
    /// Lines for the developer, appended to the log.
    pub(crate) notes: Vec<String>,
}

/// The phase in which a fault happened, which decides the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// While the code was loaded.
    Initialisation,
    /// While it ran.
    Run,
}

const LOST_LOGS: &str = "The action did not initialize or run as expected. Log data might be missing.";
const NOT_PROVISIONED: &str = "Failed to provision resources to run the action.";
const NOT_FETCHED: &str = "Action could not be fetched.";

impl Verdict {
    fn new(status: Status, result: Option<Box<RawValue>>) -> Self {
        let size = ByteSize::bytes(result.as_ref().map_or(0, |result| result.get().len() as u64));
        let response = Response { status, result, size, content_type: None };
        Self { response, http: None, timed_out: false, untried: None, notes: Vec::new() }
    }

    fn error(status: Status, text: &str) -> Self {
        Self::new(status, raw(&json!({ "error": text })))
    }

    fn lost(status: Status, text: &str) -> Self {
        Self { notes: vec![LOST_LOGS.to_owned()], ..Self::error(status, text) }
    }

    /// Flint, or the host, could not run it.
    pub(crate) fn not_provisioned(cause: &str) -> Self {
        Self::internal(NOT_PROVISIONED, cause)
    }

    /// An accepted call whose function the store could not give.
    pub(crate) fn not_fetched(cause: &str) -> Self {
        Self::internal(NOT_FETCHED, cause)
    }

    fn internal(text: &str, cause: &str) -> Self {
        let result = raw(&json!({ "error": text, "cause": cause }));
        Self { notes: vec![format!("{text} {cause}")], ..Self::new(Status::InternalError, result) }
    }

    /// An accepted call whose function was deleted meanwhile.
    pub(crate) fn deleted() -> Self {
        Self::error(Status::ApplicationError, "Action could not be found or may have been deleted.")
    }

    /// An accepted call whose namespace was blocked meanwhile.
    pub(crate) fn blocked() -> Self {
        Self::error(Status::ApplicationError, "The action was not invoked due to a blacklisted namespace.")
    }

    /// An accepted call that had all its attempts.
    pub(crate) fn given_up(attempts: u32, last: &str) -> Self {
        let text = format!("The call was given up after {attempts} attempts; the last one ended by: {last}");
        Self::error(Status::InternalError, &text)
    }

    /// An accepted call that no attempt was made at in time.
    pub(crate) fn too_old(most: Duration) -> Self {
        let most = show_duration(most);
        let text =
            format!("The call was given up: it was accepted longer ago than the {most} of its retry policy");
        Self::error(Status::InternalError, &text)
    }

    /// An accepted call whose function would not take it any more.
    pub(crate) fn refused(why: &str) -> Self {
        Self::error(Status::ApplicationError, why)
    }

    /// The outcome of an answer. A caller that `takes_http` can take any, of which the record has JSON up to
    /// this size; otherwise it has to be JSON.
    pub(crate) fn of_reply(reply: Reply, takes_http: Option<ByteSize>) -> Self {
        match (reply.head, takes_http) {
            (ReplyHead::Json, _) => Self::of_json(&reply.body),
            (ReplyHead::Http { status, headers }, Some(most)) => {
                Self::of_http(status, headers, reply.body, most)
            }
            (ReplyHead::Http { status, .. }, None) if status.is_success() => match is_document(&reply.body) {
                true => Self::of_json(&reply.body),
                false => Self::invalid(&String::from_utf8_lossy(&reply.body)),
            },
            (ReplyHead::Http { .. }, None) => match error_member(&reply.body) {
                Some(error) => Self::new(Status::DeveloperError, error),
                None => Self::invalid(&String::from_utf8_lossy(&reply.body)),
            },
        }
    }

    /// The outcome of a JSON object or array. An object with `error` is the function's own error, and only
    /// that member counts.
    fn of_json(body: &Bytes) -> Self {
        if may_have_error(body)
            && let Some(error) = error_member(body)
        {
            return Self::new(Status::ApplicationError, error);
        }
        match serde_json::from_slice::<&RawValue>(body) {
            Ok(result) => Self::new(Status::Success, Some(result.to_owned())),
            Err(_) => Self::invalid(&String::from_utf8_lossy(body)),
        }
    }

    /// The outcome of an HTTP answer that is passed to the caller. The record contains it only if it is JSON
    /// of at most this size.
    fn of_http(status: StatusCode, headers: HeaderMap, body: Bytes, most: ByteSize) -> Self {
        let mut verdict = Self::of_http_head(status, &headers);
        verdict.response.size = ByteSize::bytes(body.len() as u64);
        if body.len() as u64 <= most.as_u64() && is_json(&headers) && is_document(&body) {
            verdict.response.result = serde_json::from_slice::<&RawValue>(&body).ok().map(ToOwned::to_owned);
            verdict.response.content_type = None;
        }
        verdict.http = Some((status, headers, body));
        verdict
    }

    /// The outcome of a streamed HTTP answer.
    pub(crate) fn of_http_head(status: StatusCode, headers: &HeaderMap) -> Self {
        let failed = status.is_client_error() || status.is_server_error();
        let mut verdict = Self::new(if failed { Status::ApplicationError } else { Status::Success }, None);
        let content_type = headers.get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
        verdict.response.content_type =
            Some(content_type.map_or("application/octet-stream".to_owned(), |text| text.into_owned()));
        verdict
    }

    /// The same of a stream that was this long.
    pub(crate) fn streamed(mut self, bytes: u64) -> Self {
        self.response.size = ByteSize::bytes(bytes);
        self
    }

    /// Puts an HTTP answer that is not JSON into the record, for later readers, as `{statusCode, headers,
    /// body}`, the body in base64 where it is not text, if it is within the limit of a result.
    pub(crate) fn collectable(mut self, most: ByteSize) -> Self {
        let Some((status, headers, body)) = self.http.take().filter(|_| self.response.result.is_none())
        else {
            return self;
        };
        let shown: serde_json::Map<_, _> = headers
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into()))
            .collect();
        let text = std::str::from_utf8(&body).map_or_else(|_| STANDARD.encode(&body), str::to_owned);
        let result = raw(&json!({ "statusCode": status.as_u16(), "headers": shown, "body": text }));
        self.response.result = result.filter(|result| result.get().len() as u64 <= most.as_u64());
        self
    }

    fn invalid(text: &str) -> Self {
        let text = match text.trim() {
            "" => ".".to_owned(),
            text => format!(": {text}"),
        };
        let text = format!("The action did not produce a valid JSON or JSON Array response{text}");
        Self::error(Status::DeveloperError, &text)
    }

    /// The outcome of a fault.
    pub(crate) fn of_fault(fault: &Fault, phase: Phase, time_limit: Duration) -> Self {
        let init = phase == Phase::Initialisation;
        match fault {
            Fault::Developer { message } => Self::error(Status::DeveloperError, message),
            Fault::InvalidAnswer { text } if init => Self::error(
                Status::DeveloperError,
                &format!("The action failed during initialization: {text}"),
            ),
            Fault::InvalidAnswer { text } => Self::invalid(text),
            Fault::ResultTooLarge { size, allowed, beginning } => {
                let text = format!(
                    "The action produced a response that exceeded the allowed length: {size} > {allowed} bytes. \
                     The truncated response was: {}",
                    String::from_utf8_lossy(beginning)
                );
                Self::error(Status::ApplicationError, &text)
            }
            Fault::Exited { end } => {
                let what = if init { "not initialize and" } else { "not produce a valid response and" };
                let text = format!("The action did {what} exited unexpectedly.");
                let mut verdict = Self::lost(Status::DeveloperError, &text);
                // The API's own text comes last.
                verdict.notes.splice(..0, end.map(|end| format!("The function's process {end}.")));
                verdict
            }
            Fault::Deadline => {
                let end = if init { " during initialization." } else { "." };
                let millis = time_limit.as_millis();
                let text = format!("The action exceeded its time limits of {millis} milliseconds{end}");
                Self { timed_out: true, ..Self::lost(Status::DeveloperError, &text) }
            }
            Fault::OutOfMemory => {
                Self::lost(Status::DeveloperError, "The action exhausted its memory and was aborted.")
            }
            Fault::Request(error) => Self::of_request(error),
            Fault::NotJson(why) => Self::unfit(
                StatusCode::BAD_REQUEST,
                &format!("The function takes JSON, and the request's body is none: {why}"),
            ),
            Fault::Platform { cause } => Self::not_provisioned(cause),
        }
    }

    /// The outcome of a request whose body did not arrive completely.
    fn of_request(error: &BodyError) -> Self {
        let (status, text) = match error {
            BodyError::TooLarge(allowed) => (
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("Request larger than allowed: more than {allowed} bytes."),
            ),
            BodyError::Late => {
                (StatusCode::REQUEST_TIMEOUT, "The request's body came too slowly.".to_owned())
            }
            BodyError::Broken(why) => {
                (StatusCode::BAD_REQUEST, format!("The request's body ended early: {why}"))
            }
        };
        Self::unfit(status, &text)
    }

    /// The outcome of a request that the function cannot be given, with a matching status.
    fn unfit(status: StatusCode, text: &str) -> Self {
        let mut verdict = Self::error(Status::ApplicationError, text);
        let body = verdict.response.result.as_ref().map(|result| result.get().to_owned());
        let json = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        verdict.http = Some((status, json, body.unwrap_or_default().into()));
        verdict
    }

    /// Without its HTTP answer, for a caller that cannot take one.
    pub(crate) fn for_caller(mut self, wants_http: bool) -> Self {
        self.http = self.http.filter(|_| wants_http);
        self
    }

    /// The lines to append to the log.
    pub(crate) fn note_lines(&self, now_us: fn() -> u64) -> impl Iterator<Item = LogLine> {
        let line =
            move |text: &String| LogLine { time_us: now_us(), stream: LogStream::Stderr, text: text.clone() };
        self.notes.iter().map(line)
    }
}

/// The line that ends a log that was cut.
pub(crate) fn truncated_line(limit: ByteSize, time_us: u64) -> LogLine {
    let limit = limit.as_u64();
    let text =
        format!("Logs were truncated because the total bytes size exceeds the limit of {limit} bytes.");
    LogLine { time_us, stream: LogStream::Stderr, text }
}

fn raw(value: &serde_json::Value) -> Option<Box<RawValue>> {
    serde_json::value::to_raw_value(value).ok()
}

/// Whether headers say that the body is JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(media) = media_type(headers).map(<[u8]>::to_ascii_lowercase) else { return false };
    media == b"application/json" || media.ends_with(b"+json")
}

#[cfg(test)]
mod tests {
    use flint_executor::EndOfProcess;

    use super::*;

    fn shown(verdict: &Verdict) -> (u8, String) {
        let result = verdict.response.result.as_ref().map_or("", |result| result.get());
        (verdict.response.status.code(), result.to_owned())
    }

    fn json_reply(body: &'static str) -> (u8, String) {
        shown(&Verdict::of_reply(
            Reply { head: ReplyHead::Json, body: Bytes::from_static(body.as_bytes()) },
            None,
        ))
    }

    fn http_reply(status: u16, body: &'static str) -> (u8, String) {
        let head =
            ReplyHead::Http { status: StatusCode::from_u16(status).unwrap(), headers: HeaderMap::new() };
        shown(&Verdict::of_reply(Reply { head, body: Bytes::from_static(body.as_bytes()) }, None))
    }

    #[test]
    fn an_object_with_an_error_is_the_functions_own_error() {
        for (body, code, result) in [
            (r#"{"a":1}"#, 0, r#"{"a":1}"#),
            (r#"[{"error":1}]"#, 0, r#"[{"error":1}]"#),
            (r#"{"a":{"error":1}}"#, 0, r#"{"a":{"error":1}}"#),
            (r#"{"a":"error"}"#, 0, r#"{"a":"error"}"#),
            (r#"{"a":1,"error":{"b":[2.50]}}"#, 1, r#"{"error":{"b":[2.50]}}"#),
            (r#"{"\u0065rror":"x"}"#, 1, r#"{"error":"x"}"#),
            (r#"{"error":null}"#, 1, r#"{"error":null}"#),
            (r#"{"error":1,"error":2}"#, 1, r#"{"error":2}"#),
            (r#"{"a":"\ud800","error":2}"#, 1, r#"{"error":2}"#),
            // A lone surrogate is passed to the caller as it came.
            (r#"{"a":"\ud800"}"#, 0, r#"{"a":"\ud800"}"#),
            (r#"{"error":"no \ud83d"}"#, 1, r#"{"error":"no \ud83d"}"#),
        ] {
            assert_eq!(json_reply(body), (code, result.to_owned()), "{body}");
        }
    }

    #[test]
    fn an_http_answer_counts_as_json_when_it_is() {
        let invalid = "{\"error\":\"The action did not produce a valid JSON or JSON Array response";
        for (status, body, code, result) in [
            (200, r#"{"a":1}"#, 0, r#"{"a":1}"#.to_owned()),
            (200, r#"{"error":1}"#, 1, r#"{"error":1}"#.to_owned()),
            (200, "hello", 2, format!("{invalid}: hello\"}}")),
            (200, "7", 2, format!("{invalid}: 7\"}}")),
            (200, "", 2, format!("{invalid}.\"}}")),
            (502, r#"{"error":"e","x":1}"#, 2, r#"{"error":"e"}"#.to_owned()),
            (500, r#"{"x":1}"#, 2, format!("{invalid}: {{\\\"x\\\":1}}\"}}")),
        ] {
            assert_eq!(http_reply(status, body), (code, result), "{status} {body}");
        }
    }

    #[test]
    fn an_http_answer_goes_on_as_it_is_where_the_caller_can_take_it() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("image/jpeg"));
        let reply = |headers: &HeaderMap, body: &'static str| Reply {
            head: ReplyHead::Http { status: StatusCode::NOT_FOUND, headers: headers.clone() },
            body: Bytes::from_static(body.as_bytes()),
        };
        let most = Some(ByteSize::bytes(7));
        let verdict = Verdict::of_reply(reply(&headers, "\u{1}\u{2}"), most);
        assert_eq!((shown(&verdict), verdict.response.size), ((1, String::new()), ByteSize::bytes(2)));
        assert_eq!(verdict.response.content_type.as_deref(), Some("image/jpeg"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json; charset=utf-8"));
        let verdict = Verdict::of_reply(reply(&headers, "{\"a\":12}"), most);
        assert!(verdict.response.result.is_none() && verdict.http.is_some(), "longer than a result may be");
        let verdict = Verdict::of_reply(reply(&headers, "{\"a\":1}"), most);
        assert_eq!((shown(&verdict), verdict.response.content_type), ((1, "{\"a\":1}".to_owned()), None));
        assert_eq!(verdict.http.unwrap().0, StatusCode::NOT_FOUND);
    }

    #[test]
    fn how_a_process_ended_is_in_the_log_before_the_words_of_the_api() {
        let lines = |end| {
            let verdict = Verdict::of_fault(&Fault::Exited { end }, Phase::Run, Duration::ZERO);
            verdict.note_lines(|| 7).map(|line| line.text).collect::<Vec<_>>()
        };
        assert_eq!(lines(None), [LOST_LOGS]);
        for (end, text) in [
            (EndOfProcess::Code(3), "The function's process ended with exit code 3."),
            (EndOfProcess::Signal(11), "The function's process was ended by SIGSEGV."),
            (EndOfProcess::Signal(40), "The function's process was ended by signal 40."),
        ] {
            assert_eq!(lines(Some(end)), [text, LOST_LOGS]);
        }
    }

    #[test]
    fn what_fails_before_there_is_an_instance_has_its_cause_beside_the_words_of_the_api() {
        for (verdict, text) in [
            (Verdict::not_provisioned("no node"), "Failed to provision resources to run the action."),
            (Verdict::not_fetched("no node"), "Action could not be fetched."),
        ] {
            let (code, result) = shown(&verdict);
            let result: serde_json::Value = serde_json::from_str(&result).unwrap();
            assert_eq!((code, result), (3, json!({"error": text, "cause": "no node"})));
            let lines: Vec<_> = verdict.note_lines(|| 7).map(|line| line.text).collect();
            assert_eq!(lines, [format!("{text} no node")]);
        }
    }

    #[test]
    fn faults_have_the_words_of_the_api() {
        let limit = Duration::from_millis(1500);
        let text = |fault: Fault, phase| {
            let (code, result) = shown(&Verdict::of_fault(&fault, phase, limit));
            let result: serde_json::Value = serde_json::from_str(&result).unwrap();
            (code, result["error"].as_str().unwrap().to_owned())
        };
        let exited = || Fault::Exited { end: Some(EndOfProcess::Signal(11)) };
        let too_large =
            Fault::ResultTooLarge { size: 9, allowed: 4, beginning: Bytes::from_static(b"{\"a\"") };
        for (fault, phase, code, expected) in [
            (Fault::Developer { message: "boom".into() }, Phase::Run, 2, "boom"),
            (
                Fault::InvalidAnswer { text: "x".into() },
                Phase::Run,
                2,
                "The action did not produce a valid JSON or JSON Array response: x",
            ),
            (
                Fault::InvalidAnswer { text: "x".into() },
                Phase::Initialisation,
                2,
                "The action failed during initialization: x",
            ),
            (exited(), Phase::Run, 2, "The action did not produce a valid response and exited unexpectedly."),
            (exited(), Phase::Initialisation, 2, "The action did not initialize and exited unexpectedly."),
            (Fault::Deadline, Phase::Run, 2, "The action exceeded its time limits of 1500 milliseconds."),
            (
                Fault::Deadline,
                Phase::Initialisation,
                2,
                "The action exceeded its time limits of 1500 milliseconds during initialization.",
            ),
            (Fault::OutOfMemory, Phase::Run, 2, "The action exhausted its memory and was aborted."),
            (
                too_large,
                Phase::Run,
                1,
                "The action produced a response that exceeded the allowed length: 9 > 4 bytes. \
                 The truncated response was: {\"a\"",
            ),
            (
                Fault::Platform { cause: "no".into() },
                Phase::Run,
                3,
                "Failed to provision resources to run the action.",
            ),
            (
                Fault::Request(BodyError::TooLarge(4)),
                Phase::Run,
                1,
                "Request larger than allowed: more than 4 bytes.",
            ),
            (
                Fault::Request(BodyError::Broken("reset".into())),
                Phase::Run,
                1,
                "The request's body ended early: reset",
            ),
            (
                Fault::NotJson("no".into()),
                Phase::Run,
                1,
                "The function takes JSON, and the request's body is none: no",
            ),
            (Fault::Request(BodyError::Late), Phase::Run, 1, "The request's body came too slowly."),
        ] {
            assert_eq!(text(fault.clone(), phase), (code, expected.to_owned()), "{fault:?} {phase:?}");
        }
    }
}
