//! The extensions with a fixed type: `.json`, `.html`, `.svg`, `.text`.

use ::http::{HeaderMap, HeaderValue, StatusCode};
use bytes::Bytes;
use serde_json::value::RawValue;

use super::{Projected, ProjectionError, members, string};
use crate::web::pretty::pretty;

fn ok(content_type: &'static str, body: impl Into<Bytes>) -> Result<Projected, ProjectionError> {
    let content_type = Some(HeaderValue::from_static(content_type));
    Ok(Projected { status: StatusCode::OK, content_type, headers: HeaderMap::new(), body: body.into() })
}

/// The result as it is, an object or an array.
pub(super) fn json(result: &RawValue) -> Result<Projected, ProjectionError> {
    match result.get().starts_with(['{', '[']) {
        true => ok("application/json", result.get().to_owned()),
        false => Err(ProjectionError::Shape("application/json")),
    }
}

pub(super) fn html(result: &RawValue) -> Result<Projected, ProjectionError> {
    let text = text_of(result, "html").ok_or(ProjectionError::Shape("text/html"))?;
    ok("text/html; charset=UTF-8", text)
}

pub(super) fn svg(result: &RawValue) -> Result<Projected, ProjectionError> {
    let text = text_of(result, "svg").ok_or(ProjectionError::Shape("image/svg+xml"))?;
    ok("image/svg+xml", text)
}

pub(super) fn text(result: &RawValue) -> Result<Projected, ProjectionError> {
    let shown = |json: &RawValue| match string(json) {
        Some(text) => text,
        None if json.get().starts_with(['{', '[']) => pretty(json.get()),
        None => json.get().to_owned(),
    };
    let text = match members(result) {
        Some(members) => {
            let member = members.get("body").or_else(|| members.get("text"));
            shown(member.ok_or(ProjectionError::NoProperty)?)
        }
        None => shown(result),
    };
    ok("text/plain; charset=UTF-8", text)
}

/// The member `body` or `own` of an object, or what is a text already.
fn text_of(result: &RawValue, own: &str) -> Option<String> {
    match members(result) {
        Some(members) => string(members.get("body").or_else(|| members.get(own))?),
        None => string(result),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::Projection;

    fn project(form: Projection, result: &str) -> Result<(String, String), String> {
        let result = RawValue::from_string(result.to_owned()).unwrap();
        let projected = form.project(&result).map_err(|error| error.to_string())?;
        assert_eq!(projected.status, StatusCode::OK);
        let media = projected.content_type.unwrap().to_str().unwrap().to_owned();
        Ok((media, String::from_utf8(projected.body.to_vec()).unwrap()))
    }

    #[test]
    fn json_is_the_result_as_it_came() {
        for result in [r#"{"n": 1.10}"#, "[1,  2]", "{}"] {
            assert_eq!(project(Projection::Json, result), Ok(("application/json".into(), result.into())));
        }
        for result in ["\"x\"", "7", "null", "true"] {
            let text = "Response is not valid 'application/json'.";
            assert_eq!(project(Projection::Json, result), Err(text.into()), "{result}");
        }
    }

    #[test]
    fn html_and_svg_are_a_member_or_the_text_itself() {
        for (form, own, media) in [
            (Projection::Html, "html", "text/html; charset=UTF-8"),
            (Projection::Svg, "svg", "image/svg+xml"),
        ] {
            for result in [
                r#"{"body":"<a\u003e"}"#.to_owned(),
                format!("{{\"{own}\":\"<a>\"}}"),
                format!("{{\"{own}\":\"other\",\"body\":\"<a>\"}}"),
                "\"<a>\"".to_owned(),
            ] {
                assert_eq!(project(form, &result), Ok((media.into(), "<a>".into())), "{result}");
            }
            let essence = media.split(';').next().unwrap();
            for result in
                ["{}", r#"{"body":7}"#, r#"{"body":null,"html":"x","svg":"x"}"#, "7", "[\"x\"]", "null"]
            {
                assert_eq!(
                    project(form, result),
                    Err(format!("Response is not valid '{essence}'.")),
                    "{result}"
                );
            }
        }
    }

    #[test]
    fn text_prints_what_there_is() {
        for (result, text) in [
            (r#"{"body":"b","text":"t"}"#, "b"),
            (r#"{"text":"t"}"#, "t"),
            (r#"{"text":1.10}"#, "1.10"),
            (r#"{"text":null}"#, "null"),
            (r#"{"text":true}"#, "true"),
            (r#"{"text":{"a":1}}"#, "{\n  \"a\": 1\n}"),
            ("[1]", "[\n  1\n]"),
            ("\"t\"", "t"),
            (r#"{"text":"t\ud83d"}"#, "t\u{fffd}"),
            ("7", "7"),
        ] {
            assert_eq!(
                project(Projection::Text, result),
                Ok(("text/plain; charset=UTF-8".into(), text.into()))
            );
        }
        let missing = "Response does not include requested property.";
        assert_eq!(project(Projection::Text, r#"{"a":1}"#), Err(missing.into()));
        assert_eq!(ProjectionError::NoProperty.status(), StatusCode::NOT_FOUND);
    }
}
