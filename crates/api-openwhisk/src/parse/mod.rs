//! Parsers of untrusted input. Pure functions from bytes to a value or the API's error text.

mod body;
mod code;
mod dots;
mod entity;
mod names;
mod query;
mod route;
mod version;

pub use body::{Exec, PutBody, put_body};
pub use code::{DecodedCode, decode_code, looks_like_base64};
pub use dots::without_dots;
pub use entity::{
    EntityName, PackageBody, RuleBody, TriggerBody, package_body, rule_body, rule_status, trigger_body,
};
pub use names::{action_filter, percent_decode};
pub use query::{ListQuery, Query, QueryError};
pub use route::{Method, Name, Route, RouteError, route};
use serde::de::DeserializeOwned;
use version::version;

/// A body that is an object; the error is a text for people.
pub(crate) fn object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    if !bytes.trim_ascii_start().starts_with(b"{") {
        // serde would also read a struct from an array.
        return Err("The body has to be a JSON object.".to_owned());
    }
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

/// Parsers of requests to the API gateway.
pub mod gateway {
    pub use crate::gateway::{CreateApi, create_api};
}

/// Parsers of requests to web actions.
pub mod web {
    pub use crate::web::{
        Envelope, InputError, MediaType, Projected, Projection, ProjectionError, Target, arguments, target,
    };
}
