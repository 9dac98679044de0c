//! Readers of what comes from outside. Pure: bytes in, a value or the API's error text out.

mod body;
mod code;
mod names;
mod query;
mod route;

pub use body::{Exec, PutBody, put_body};
pub use code::{DecodedCode, decode_code, looks_like_base64};
pub use names::{action_filter, percent_decode};
pub use query::{ListQuery, Query, QueryError};
pub use route::{Collection, Method, Name, Route, RouteError, route};
