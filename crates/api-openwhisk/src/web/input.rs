//! The arguments of a web action: what the request was, its query, its body.
//!
//! Members of a JSON body are checked and copied as they came, never turned into values and written again.

use std::{borrow::Cow, collections::BTreeMap};

use http::{HeaderMap, Method, header::COOKIE};
use serde_json::{Value, value::RawValue};

use super::{MediaType, binary};
use crate::parse::Query;

/// What every action gets to know about its request.
#[derive(Clone, Debug)]
pub struct Envelope<'a> {
    /// The method.
    pub method: &'a Method,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// What follows the action in the path.
    pub rest: &'a str,
    /// The query as it came.
    pub query: &'a str,
    /// The caller's namespace, when it is known.
    pub user: Option<&'a str>,
}

/// Why a request has no arguments.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum InputError {
    /// The query or the body speaks in the platform's name.
    #[error("Request defines parameters that are not allowed (e.g., reserved properties).")]
    Reserved,
    /// The body is not what its type says.
    #[error("The request content was malformed:\n{0}")]
    Malformed(String),
}

const METHOD: &str = "__ow_method";
const HEADERS: &str = "__ow_headers";
const PATH: &str = "__ow_path";
const USER: &str = "__ow_user";
const QUERY: &str = "__ow_query";
const BODY: &str = "__ow_body";

/// What a request must not set itself.
const RESERVED: &[&str] = &[METHOD, HEADERS, PATH, USER, QUERY, BODY];

/// Members by key, each as JSON text.
type Members<'a> = BTreeMap<Cow<'a, str>, Cow<'a, str>>;

/// The arguments as one JSON object.
///
/// A body of JSON or of a form goes over the query, both over what is known of the request; any other body is `__ow_body`,
/// bytes as base64. With `raw` (annotation `raw-http`) query and body are handed on unread.
pub fn arguments(
    envelope: &Envelope<'_>,
    media_type: Option<&MediaType>,
    body: &[u8],
    raw: bool,
) -> Result<String, InputError> {
    let mut members = known(envelope);
    let own = match raw {
        true => unread(envelope.query, media_type, body),
        false => {
            let query = Query::parse(envelope.query);
            let mut own = fields(&query);
            let content = content(media_type, body)?;
            if let Content::Members(members) = content {
                own.extend(members);
                refuse_reserved(&own)?;
            } else {
                refuse_reserved(&own)?;
                own.extend(content.opaque());
            }
            // The query does not live as long as the request.
            own.into_iter().map(|(key, value)| (owned(key), owned(value))).collect()
        }
    };
    members.extend(own);
    Ok(written(&members))
}

/// A body that was read.
enum Content<'a> {
    Nothing,
    /// An object's members or a form's fields.
    Members(Members<'a>),
    /// One value, as JSON text.
    Opaque(Cow<'a, str>),
}

impl<'a> Content<'a> {
    fn opaque(self) -> Option<(Cow<'a, str>, Cow<'a, str>)> {
        match self {
            Self::Opaque(text) => Some((BODY.into(), text)),
            _ => None,
        }
    }
}

fn known(envelope: &Envelope<'_>) -> Members<'static> {
    let mut members = Members::new();
    let mut set = |key: &'static str, text: String| members.insert(key.into(), text.into());
    set(METHOD, string(&envelope.method.as_str().to_ascii_lowercase()));
    set(HEADERS, headers(envelope.headers));
    set(PATH, string(envelope.rest));
    if let Some(user) = envelope.user {
        set(USER, string(user));
    }
    members
}

/// Headers as one object. A header that came several times is one line, as HTTP allows.
fn headers(headers: &HeaderMap) -> String {
    let mut lines = BTreeMap::<&str, String>::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        match lines.get_mut(name.as_str()) {
            Some(line) => {
                line.push_str(if name == COOKIE { "; " } else { ", " });
                line.push_str(&value);
            }
            None => {
                lines.insert(name.as_str(), value.into_owned());
            }
        }
    }
    let lines = lines.into_iter().map(|(name, line)| (name.to_owned(), Value::from(line))).collect();
    Value::Object(lines).to_string()
}

fn unread(query: &str, media_type: Option<&MediaType>, body: &[u8]) -> Members<'static> {
    let encoded = |media: &MediaType| media.is_binary() || media.essence() == "application/json";
    let body = match media_type {
        // Who says nothing about a body sends bytes.
        media if !body.is_empty() && media.is_none_or(encoded) => binary::encode(body),
        _ => String::from_utf8_lossy(body).into_owned(),
    };
    [(QUERY.into(), string(query).into()), (BODY.into(), string(&body).into())].into()
}

/// Fields of a query or a form. Of one that is there twice, the last counts.
fn fields(query: &Query<'_>) -> Members<'static> {
    query.iter().map(|(key, value)| (key.to_owned().into(), string(value).into())).collect()
}

fn content<'a>(media_type: Option<&MediaType>, body: &'a [u8]) -> Result<Content<'a>, InputError> {
    if body.is_empty() {
        return Ok(Content::Nothing);
    }
    let malformed = |error: &dyn std::fmt::Display| InputError::Malformed(error.to_string());
    match media_type {
        Some(media) if media.is_json() => {
            let text = std::str::from_utf8(body).map_err(|error| malformed(&error))?;
            if text.trim_ascii_start().starts_with('{') {
                let members: BTreeMap<Cow<'a, str>, &'a RawValue> =
                    serde_json::from_str(text).map_err(|error| malformed(&error))?;
                let members = members.into_iter().map(|(key, value)| (key, value.get().into()));
                return Ok(Content::Members(members.collect()));
            }
            let value: &RawValue = serde_json::from_str(text).map_err(|error| malformed(&error))?;
            Ok(Content::Opaque(value.get().into()))
        }
        Some(media) if media.is_form() => {
            let text = std::str::from_utf8(body).map_err(|error| malformed(&error))?;
            Ok(Content::Members(fields(&Query::parse(text.trim_ascii_end()))))
        }
        Some(media) if !media.is_binary() => {
            Ok(Content::Opaque(string(&String::from_utf8_lossy(body)).into()))
        }
        // Bytes, or nobody says what.
        _ => Ok(Content::Opaque(string(&binary::encode(body)).into())),
    }
}

fn refuse_reserved(members: &Members<'_>) -> Result<(), InputError> {
    match RESERVED.iter().any(|key| members.contains_key(*key)) {
        true => Err(InputError::Reserved),
        false => Ok(()),
    }
}

fn written(members: &Members<'_>) -> String {
    let size: usize = members.iter().map(|(key, value)| key.len() + value.len() + 4).sum();
    let mut text = String::with_capacity(size + 2);
    text.push('{');
    for (key, value) in members {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&string(key));
        text.push(':');
        text.push_str(value);
    }
    text.push('}');
    text
}

/// A text as JSON.
fn string(text: &str) -> String {
    Value::from(text).to_string()
}

fn owned(text: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(text.into_owned())
}

#[cfg(test)]
mod tests {
    use http::HeaderName;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(query: &str, media: Option<&str>, body: &[u8], raw: bool) -> Result<Value, InputError> {
        let headers = HeaderMap::new();
        let envelope = Envelope { method: &Method::POST, headers: &headers, rest: "/r", query, user: None };
        let media = media.map(|media| MediaType::parse(media).unwrap());
        let text = arguments(&envelope, media.as_ref(), body, raw)?;
        let mut value: Value = serde_json::from_str(&text).unwrap();
        for key in [METHOD, HEADERS, PATH] {
            assert!(value.as_object_mut().unwrap().remove(key).is_some(), "{key}");
        }
        Ok(value)
    }

    const JSON: Option<&str> = Some("application/json");
    const FORM: Option<&str> = Some("application/x-www-form-urlencoded");

    #[test]
    fn the_request_is_described() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("X-Mine", "1"), ("x-mine", "2"), ("cookie", "a=1"), ("cookie", "b=2")] {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let envelope =
            Envelope { method: &Method::PATCH, headers: &headers, rest: "/a/b", query: "", user: Some("me") };
        let text = arguments(&envelope, None, b"", false).unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&text).unwrap(),
            json!({"__ow_method": "patch", "__ow_path": "/a/b", "__ow_user": "me",
                   "__ow_headers": {"x-mine": "1, 2", "cookie": "a=1; b=2"}})
        );
    }

    #[test]
    fn query_parameters_are_strings_and_the_body_wins() {
        assert_eq!(read("a=1&b=x+y&a=2&c", None, b"", false), Ok(json!({"a": "2", "b": "x y", "c": ""})));
        assert_eq!(read("a=1&b=2", JSON, br#"{"a":{"n":1}}"#, false), Ok(json!({"a": {"n": 1}, "b": "2"})));
        assert_eq!(read("a=1", Some("application/x.y+json"), b"{\"a\":null}", false), Ok(json!({"a": null})));
        assert_eq!(
            read("a=1&b=2", FORM, b"a=3&c=%C3%A9+x&c=4", false),
            Ok(json!({"a": "3", "b": "2", "c": "4"}))
        );
    }

    #[test]
    fn numbers_pass_unchanged() {
        let headers = HeaderMap::new();
        let envelope = Envelope { method: &Method::GET, headers: &headers, rest: "", query: "", user: None };
        let json = MediaType::parse("application/json");
        let body = br#"{"n": 1.10, "m": 9007199254740993, "too large for a float": 1E400}"#;
        let text = arguments(&envelope, json.as_ref(), body, false).unwrap();
        for number in [r#""n":1.10"#, "9007199254740993", "1E400"] {
            assert!(text.contains(number), "{text}");
        }
    }

    #[test]
    fn other_bodies_stand_alone() {
        for (media, body, expected) in [
            (JSON, &b"[1, 2]"[..], json!({"__ow_body": [1, 2]})),
            (JSON, b"\"x\"", json!({"__ow_body": "x"})),
            (JSON, b"null", json!({"__ow_body": null})),
            (JSON, b"", json!({})),
            (Some("text/plain"), b"hi", json!({"__ow_body": "hi"})),
            (Some("application/xml"), b"<a/>", json!({"__ow_body": "<a/>"})),
            (Some("image/png"), b"\x89PNG", json!({"__ow_body": "iVBORw=="})),
            (Some("multipart/form-data; boundary=x"), b"--x", json!({"__ow_body": "LS14"})),
            (None, b"hi", json!({"__ow_body": "aGk="})),
        ] {
            assert_eq!(read("", media, body, false), Ok(expected), "{media:?}");
        }
    }

    #[test]
    fn a_raw_action_gets_query_and_body_unread() {
        for (query, media, body, expected) in [
            (
                "a=1&a=%20",
                JSON,
                &b"{\"a\":1}"[..],
                json!({"__ow_query": "a=1&a=%20", "__ow_body": "eyJhIjoxfQ=="}),
            ),
            ("", None, b"", json!({"__ow_query": "", "__ow_body": ""})),
            ("", FORM, b"a=1", json!({"__ow_query": "", "__ow_body": "a=1"})),
            ("", Some("application/x.y+json"), b"{}", json!({"__ow_query": "", "__ow_body": "{}"})),
            ("", Some("image/png"), b"\x89PNG", json!({"__ow_query": "", "__ow_body": "iVBORw=="})),
            ("__ow_method=x", JSON, b"", json!({"__ow_query": "__ow_method=x", "__ow_body": ""})),
        ] {
            assert_eq!(read(query, media, body, true), Ok(expected), "{query} {media:?}");
        }
    }

    #[test]
    fn nobody_speaks_in_the_platforms_name() {
        for key in RESERVED {
            assert_eq!(read(&format!("a=1&{key}=x"), None, b"", false), Err(InputError::Reserved), "{key}");
            assert_eq!(read("", FORM, format!("{key}=x").as_bytes(), false), Err(InputError::Reserved));
            let body = json!({ *key: 1 }).to_string();
            assert_eq!(read("", JSON, body.as_bytes(), false), Err(InputError::Reserved), "{key}");
            assert_eq!(read(&format!("{key}=x"), Some("text/plain"), b"b", false), Err(InputError::Reserved));
        }
        assert!(read("__ow_mine=1", None, b"", false).is_ok());
    }

    #[test]
    fn a_body_that_is_not_what_it_says_is_refused() {
        for body in [&b"{"[..], b"{}x", b"nonsense", b"{\"a\":\"\xff\"}", b"{\"a\":}"] {
            assert!(matches!(read("", JSON, body, false), Err(InputError::Malformed(_))), "{body:?}");
        }
        assert!(matches!(read("", FORM, b"\xff=1", false), Err(InputError::Malformed(_))));
    }

    proptest! {
        #[test]
        fn any_request_gives_an_object_or_a_refusal(query in "\\PC{0,40}", body: Vec<u8>, kind in 0..6usize, raw: bool) {
            let media = [None, JSON, FORM, Some("text/plain"), Some("image/png"), Some("a/b+json")][kind];
            if let Ok(value) = read(&query, media, &body, raw) {
                prop_assert!(value.is_object());
            }
        }

        #[test]
        fn a_json_body_comes_through(members in proptest::collection::btree_map("[a-z]{1,3}", any::<i64>(), 0..6)) {
            let body = serde_json::to_vec(&members).unwrap();
            prop_assert_eq!(read("", JSON, &body, false).unwrap(), serde_json::to_value(&members).unwrap());
        }
    }
}
