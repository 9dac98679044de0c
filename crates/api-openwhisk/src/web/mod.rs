//! Web actions: actions that anybody may call by their address, `/api/v1/web/NAMESPACE/PACKAGE/ACTION[.EXTENSION][/REST]`.
//!
//! The way of a request: [`target`](mod@target) reads the path → [`call`](mod@call) finds the action, asks [`permission`] and calls it with the
//! arguments that [`input`] makes → [`projection`] turns the result into an answer, which [`cors`] opens to pages of other sites.

mod accept;
mod answer;
mod binary;
mod call;
mod cors;
mod input;
mod media_type;
mod permission;
mod pretty;
mod projection;
mod stream;
mod target;

pub(crate) use call::{Asked, preflight, refused, serve};
pub use input::{Envelope, InputError, arguments};
pub use media_type::MediaType;
pub(crate) use permission::SECRET;
pub use projection::{Projected, Projection, ProjectionError};
pub use target::{Target, target};
