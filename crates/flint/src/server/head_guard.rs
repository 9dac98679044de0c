//! Limits the size of a request's head. hyper bounds what it reads before a head is complete, without telling
//! the client the limit; this module does for heads that hyper accepts.

use axum::{
    http::{Request, StatusCode},
    response::Response,
};
use flint_model::ByteSize;

use super::refusal;

const HINT: &str = "send less in headers and query; the operator raises it by server.max_header";

/// The refusal, in the front's format, of a head larger than this.
pub(super) fn refusal<B>(request: &Request<B>, most: ByteSize, native: bool) -> Option<Response> {
    let size = size(request);
    if size as u64 <= most.as_u64() {
        return None;
    }
    let message = format!("the request's head has {size} bytes; at most {} are allowed", most.as_u64());
    Some(refusal::refusal(
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        "head_too_large",
        &message,
        HINT,
        native,
    ))
}

/// In the usual form: one space after each colon.
fn size<B>(request: &Request<B>) -> usize {
    const LINE: usize = "  HTTP/1.1\r\n".len();
    const FIELD: usize = ": \r\n".len();
    let uri = request.uri();
    let target = uri.scheme_str().map_or(0, |scheme| scheme.len() + "://".len())
        + uri.authority().map_or(0, |authority| authority.as_str().len())
        + uri.path_and_query().map_or(0, |path| path.as_str().len());
    let fields: usize =
        request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD).sum();
    request.method().as_str().len() + target + LINE + fields + "\r\n".len()
}
