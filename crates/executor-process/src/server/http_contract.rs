//! Contract `http`: the caller's request goes to the server on `$PORT`, its response comes back.

use flint_executor::{Body, Call};
use flint_runtimes::process::command::PORT;
use http::{HeaderValue, Request, header::CONTENT_LENGTH};

use super::body::RequestBody;

/// The request as the server gets it.
pub(super) fn request(call: Call) -> Result<Request<RequestBody>, String> {
    let host = HeaderValue::try_from(format!("127.0.0.1:{PORT}")).map_err(|error| error.to_string())?;
    let mut request = call.into_request(host)?;
    if matches!(request.body(), Body::Full(_)) {
        // The body at hand says it.
        request.headers_mut().remove(CONTENT_LENGTH);
    }
    Ok(request.map(RequestBody::from))
}
