//! `.http`: the result says what the answer is, `{"statusCode": …, "headers": {…}, "body": …}`.

use ::http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE},
};
use bytes::Bytes;
use flint_executor::remove_hop_by_hop;
use serde_json::value::RawValue;

use super::{Projected, ProjectionError, members, string};
use crate::{
    parse::looks_like_base64,
    web::{MediaType, binary, pretty::pretty},
};

const INVALID: ProjectionError = ProjectionError::Shape("message/http");
const HTML: &str = "text/html; charset=UTF-8";
const JSON: &str = "application/json";

pub(super) fn project(result: &RawValue) -> Result<Projected, ProjectionError> {
    let members = members(result).ok_or(INVALID)?;
    let status = members.get("statusCode").map(|code| status(code).ok_or(INVALID)).transpose()?;
    let mut headers = match members.get("headers") {
        Some(object) => headers(object).ok_or(INVALID)?,
        None => HeaderMap::new(),
    };
    let content_type = headers.remove(CONTENT_TYPE);
    // What belongs to the connection, or is worked out from the body: an action's word on it is not heard.
    remove_hop_by_hop(&mut headers);
    headers.remove(CONTENT_LENGTH);
    let body = members.get("body").filter(|body| !matches!(body.get(), "null" | "\"\""));
    let Some(body) = body else {
        let status = status.unwrap_or(StatusCode::NO_CONTENT);
        return Ok(Projected { status, content_type: None, headers, body: Bytes::new() });
    };
    let (content_type, body) = match string(body) {
        Some(text) => of_text(content_type, text)?,
        None => of_json(content_type, body)?,
    };
    Ok(Projected {
        status: status.unwrap_or(StatusCode::OK),
        content_type: Some(content_type),
        headers,
        body,
    })
}

/// A whole number, or the text of one, that an answer can have.
fn status(json: &RawValue) -> Option<StatusCode> {
    let code = match string(json) {
        Some(text) => text.parse::<u16>().ok()?,
        None => {
            let number: f64 = serde_json::from_str(json.get()).ok()?;
            (number.fract() == 0.0 && (0.0..1000.0).contains(&number)).then_some(number as u16)?
        }
    };
    StatusCode::from_u16(code).ok().filter(|status| !status.is_informational())
}

/// Names with texts, numbers, truth values, or lists of those.
fn headers(json: &RawValue) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in members(json)? {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        append(&mut headers, &name, value)?;
    }
    Some(headers)
}

fn append(headers: &mut HeaderMap, name: &HeaderName, value: &RawValue) -> Option<()> {
    let text = match value.get().as_bytes().first()? {
        b'[' => {
            let list: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
            return list.into_iter().try_for_each(|value| append(headers, name, value));
        }
        b'{' | b'n' => return None,
        b'"' => string(value)?,
        _ => value.get().to_owned(),
    };
    // Thousands of lines are no answer that a client reads.
    headers.try_append(name, HeaderValue::from_bytes(text.as_bytes()).ok()?).ok()?;
    Some(())
}

fn of_text(declared: Option<HeaderValue>, text: String) -> Result<(HeaderValue, Bytes), ProjectionError> {
    let Some(declared) = declared else { return Ok((HeaderValue::from_static(HTML), text.into())) };
    let media = MediaType::of_header(&declared).ok_or(ProjectionError::UnknownType)?;
    let body = match binary::decode(&text) {
        // Old actions return JSON as base64.
        Some(bytes) if media.is_binary() || media.is_json() && looks_like_base64(&text) => bytes.into(),
        // An SVG image that is written out: OpenWhisk wants base64 of it, which nobody expects.
        None if media.is_binary() && !media.is_svg() => return Err(ProjectionError::WrongType),
        _ => Bytes::from(text),
    };
    Ok((with_charset(declared, &media), body))
}

fn of_json(declared: Option<HeaderValue>, body: &RawValue) -> Result<(HeaderValue, Bytes), ProjectionError> {
    let Some(declared) = declared else {
        return Ok((HeaderValue::from_static(JSON), body.get().to_owned().into()));
    };
    match MediaType::of_header(&declared) {
        Some(media) if media.essence() == JSON => Ok((declared, body.get().to_owned().into())),
        Some(media) if media.is_json() => Ok((declared, pretty(body.get()).into())),
        _ => Err(ProjectionError::WrongType),
    }
}

/// Text is sent as UTF-8, and says so.
fn with_charset(declared: HeaderValue, media: &MediaType) -> HeaderValue {
    if !media.wants_charset() {
        return declared;
    }
    let text = declared.to_str().unwrap_or_default().trim_end().trim_end_matches(';');
    HeaderValue::from_str(&format!("{text}; charset=UTF-8")).unwrap_or(declared)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn raw(result: &Value) -> Box<RawValue> {
        RawValue::from_string(result.to_string()).unwrap()
    }

    fn of(result: Value) -> Result<Projected, ProjectionError> {
        project(&raw(&result))
    }

    /// Status, content type and body.
    fn shown(result: Value) -> (u16, Option<String>, Vec<u8>) {
        let answer = of(result.clone()).unwrap_or_else(|error| panic!("{result}: {error}"));
        let media = answer.content_type.map(|media| media.to_str().unwrap().to_owned());
        (answer.status.as_u16(), media, answer.body.to_vec())
    }

    #[test]
    fn an_empty_body_has_no_type_and_status_204() {
        for result in [
            json!({}),
            json!({"body": null}),
            json!({"body": ""}),
            json!({"headers": {"content-type": "image/png"}}),
            json!({"other": 1}),
        ] {
            assert_eq!(shown(result.clone()), (204, None, vec![]), "{result}");
        }
        assert_eq!(shown(json!({"statusCode": 302, "headers": {"location": "/x"}})).0, 302);
    }

    #[test]
    fn a_status_is_a_whole_number_or_the_text_of_one() {
        for (code, status) in [
            (json!(444), 444),
            (json!("201"), 201),
            (json!(200.0), 200),
            (json!("+418"), 418),
            (json!(999), 999),
        ] {
            assert_eq!(shown(json!({"statusCode": code, "body": "x"})).0, status);
        }
        for code in [
            json!("x"),
            json!(200.5),
            json!(null),
            json!(true),
            json!({}),
            json!([200]),
            json!(-1),
            json!(99),
            json!(101),
            json!(1000),
            json!("70000"),
            json!(1e300),
            json!(""),
        ] {
            assert_eq!(of(json!({"statusCode": code})), Err(INVALID), "{code}");
        }
    }

    #[test]
    fn headers_are_texts_numbers_truth_values_or_lists_of_them() {
        let answer = of(json!({"headers": {
            "X-Text": "t", "x-number": 1.5, "x-bool": false, "Set-Cookie": ["a=1", ["b=2", 3]], "x-none": []
        }}))
        .unwrap();
        let all = |name: &str| {
            let mut all: Vec<_> = answer.headers.get_all(name).iter().map(|v| v.to_str().unwrap()).collect();
            all.sort_unstable();
            all
        };
        assert_eq!((all("x-text"), all("x-number"), all("x-bool")), (vec!["t"], vec!["1.5"], vec!["false"]));
        assert_eq!((all("set-cookie"), all("x-none")), (vec!["3", "a=1", "b=2"], vec![]));
        for bad in [
            json!({"x": null}),
            json!({"x": {}}),
            json!({"x": [null]}),
            json!({"a b": "x"}),
            json!({"": "x"}),
            json!({"x": "a\r\nset-cookie: b"}),
            json!({"x": "a\u{0}"}),
            json!("x"),
            json!(null),
            json!(["x"]),
        ] {
            assert_eq!(of(json!({"headers": bad})), Err(INVALID), "{bad}");
        }
    }

    #[test]
    fn the_connection_is_not_the_actions() {
        let answer = of(json!({"body": "x", "headers": {
            "Content-Length": 7, "Transfer-Encoding": "chunked", "connection": "close", "upgrade": "h2c", "x": "1"
        }}))
        .unwrap();
        assert_eq!(answer.headers.len(), 1);
    }

    #[test]
    fn what_is_no_object_is_no_answer() {
        for result in [json!([]), json!("x"), json!(7), json!(null)] {
            assert_eq!(of(result.clone()), Err(INVALID), "{result}");
        }
        assert_eq!(INVALID.to_string(), "Response is not valid 'message/http'.");
    }

    fn typed(media: &str, body: Value) -> Value {
        json!({"headers": {"Content-Type": media}, "body": body})
    }

    #[test]
    fn a_text_is_html_unless_it_says_otherwise() {
        assert_eq!(shown(json!({"body": "<p>"})), (200, Some(HTML.into()), b"<p>".to_vec()));
        for (media, sent) in [
            ("text/plain", "text/plain; charset=UTF-8"),
            ("text/css;", "text/css; charset=UTF-8"),
            ("text/plain; charset=latin1", "text/plain; charset=latin1"),
            ("application/json", "application/json"),
            ("image/svg+xml", "image/svg+xml"),
        ] {
            assert_eq!(
                shown(typed(media, json!("<p>"))),
                (200, Some(sent.into()), b"<p>".to_vec()),
                "{media}"
            );
        }
        let error = of(typed("nonsense", json!("x"))).unwrap_err();
        assert_eq!(error.to_string(), "Response did not specify a known content-type.");
    }

    #[test]
    fn bytes_come_as_base64() {
        for (media, text, body) in [
            ("image/png", "iVBORw==", &b"\x89PNG"[..]),
            ("application/octet-stream", "iVBORw", b"\x89PNG"),
            ("image/svg+xml", "PHN2Zz4=", b"<svg>"),
            ("application/json", "eyJhIjoxfQ==", b"{\"a\":1}"),
            ("application/x.y+json", "e30=", b"{}"),
            ("text/plain", "aGk=", b"aGk="),
        ] {
            assert_eq!(shown(typed(media, json!(text))).2, body, "{media}");
        }
        let error = of(typed("image/png", json!("not base64!"))).unwrap_err();
        assert_eq!(error.to_string(), "Response type in header did not match generated content type.");
    }

    #[test]
    fn what_is_no_text_is_json() {
        let compact = b"{\"a\":[1]}".to_vec();
        assert_eq!(shown(json!({"body": {"a": [1]}})), (200, Some(JSON.into()), compact.clone()));
        let media = "application/json; charset=utf-8";
        assert_eq!(shown(typed(media, json!({"a": [1]}))), (200, Some(media.into()), compact));
        let pretty = b"{\n  \"a\": 1\n}".to_vec();
        assert_eq!(shown(typed("application/x+json", json!({"a": 1}))).2, pretty);
        for body in [json!(7), json!(true), json!([]), json!(0)] {
            assert_eq!(shown(json!({"body": body})).2, body.to_string().into_bytes());
            assert_eq!(of(typed("text/plain", body)), Err(ProjectionError::WrongType));
        }
        assert_eq!(of(typed("nonsense", json!({}))), Err(ProjectionError::WrongType));
        let number = RawValue::from_string(r#"{"body":{"n":1.10}}"#.to_owned()).unwrap();
        assert_eq!(project(&number).unwrap().body, r#"{"n":1.10}"#, "numbers pass unchanged");
        let half = RawValue::from_string(r#"{"body":"<a>\ud83d"}"#.to_owned()).unwrap();
        let half = project(&half).unwrap();
        assert_eq!((half.content_type.unwrap(), half.body), (HTML.parse().unwrap(), "<a>\u{fffd}".into()));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
            "[a-zA-Z0-9+/]{0,8}={0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-zA-Z-]{0,8}|content-type", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_result_is_an_answer_or_a_refusal(status in any_value(), headers in any_value(), body in any_value()) {
            for result in [json!({"statusCode": status, "headers": headers, "body": body}), json!({"headers": headers, "body": body}), body] {
                if let Ok(answer) = of(result) {
                    prop_assert!((200..1000).contains(&answer.status.as_u16()));
                    prop_assert_eq!(answer.content_type.is_none(), answer.body.is_empty() && answer.content_type.is_none());
                    prop_assert!(!answer.headers.contains_key(CONTENT_TYPE) && !answer.headers.contains_key(CONTENT_LENGTH));
                }
            }
        }

        #[test]
        fn bytes_come_through(bytes in proptest::collection::vec(any::<u8>(), 1..100)) {
            prop_assert_eq!(shown(typed("application/octet-stream", json!(binary::encode(&bytes)))).2, bytes);
        }

        #[test]
        fn texts_come_through(text in ".+") {
            prop_assert_eq!(shown(typed("text/plain", json!(text))).2, text.clone().into_bytes());
            prop_assert_eq!(shown(json!({"body": text})).2, text.into_bytes());
        }

        #[test]
        fn a_status_that_is_named_is_sent(code in 200..1000u16, as_text: bool) {
            let code_json = if as_text { json!(code.to_string()) } else { json!(code) };
            prop_assert_eq!(shown(json!({"statusCode": code_json})).0, code);
        }
    }
}
