//! From an action's result to the body of an answer, as the extension in the path says.

mod http;
mod plain;

use ::http::{HeaderMap, HeaderValue, StatusCode};
use bytes::Bytes;
use flint_model::lenient_text;
use serde_json::value::RawValue;
use std::collections::HashMap;

/// A form of answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projection {
    /// `.http`: the result says status, headers and body.
    Http,
    /// `.json`: the result.
    Json,
    /// `.html`: its member `body` or `html`.
    Html,
    /// `.svg`: its member `body` or `svg`.
    Svg,
    /// `.text`: its member `body` or `text`.
    Text,
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Projected {
    /// Its status.
    pub status: StatusCode,
    /// Its type; absent with an empty body.
    pub content_type: Option<HeaderValue>,
    /// Its other headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// Why a result has no such answer.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProjectionError {
    /// The result has not the shape that the extension asks for.
    #[error("Response is not valid '{0}'.")]
    Shape(&'static str),
    /// The result has not the member that the extension asks for.
    #[error("Response does not include requested property.")]
    NoProperty,
    /// The declared content type is none.
    #[error("Response did not specify a known content-type.")]
    UnknownType,
    /// The body is not of the declared content type.
    #[error("Response type in header did not match generated content type.")]
    WrongType,
}

impl ProjectionError {
    /// The status of the refusal.
    pub fn status(self) -> StatusCode {
        match self {
            Self::NoProperty => StatusCode::NOT_FOUND,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

impl Projection {
    /// Every extension.
    pub(crate) const ALL: [(&'static str, Self); 5] = [
        (".http", Self::Http),
        (".json", Self::Json),
        (".html", Self::Html),
        (".svg", Self::Svg),
        (".text", Self::Text),
    ];

    /// A name and its extension; `.http` when it has none of those that are known.
    pub(crate) fn split(name: &str) -> (&str, Self) {
        let found = Self::ALL.iter().find_map(|(suffix, form)| Some((name.strip_suffix(suffix)?, *form)));
        found.unwrap_or((name, Self::Http))
    }

    /// The answer that a result stands for.
    pub fn project(self, result: &RawValue) -> Result<Projected, ProjectionError> {
        match self {
            Self::Http => http::project(result),
            Self::Json => plain::json(result),
            Self::Html => plain::html(result),
            Self::Svg => plain::svg(result),
            Self::Text => plain::text(result),
        }
    }
}

/// The members of a JSON object; `None` when it is something else. Values stay text.
fn members(json: &RawValue) -> Option<HashMap<String, &RawValue>> {
    json.get().starts_with('{').then(|| serde_json::from_str(json.get()).ok()).flatten()
}

/// A JSON string's text.
fn string(json: &RawValue) -> Option<String> {
    let text = || lenient_text(&mut serde_json::Deserializer::from_str(json.get())).ok();
    json.get().starts_with('"').then(text).flatten()
}
