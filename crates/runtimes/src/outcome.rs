//! Putting together what a call came to.

use flint_executor::{CallEnd, Fault, Invoked, Reply, ReplyHead};
use flint_model::Usage;
use http::{HeaderMap, HeaderName, StatusCode, header};

use crate::process::logs::Logs;

/// Headers that concern one connection only (RFC 9110 §7.6.1).
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Takes out headers that concern one connection only, also those that `Connection` names.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
    headers.remove("keep-alive");
}

/// Why a status cannot be an answer's: informational ones announce another.
pub fn is_final(status: StatusCode) -> Result<(), Fault> {
    match status.is_informational() {
        true => Err(Fault::InvalidAnswer {
            text: format!("{} is not an HTTP status of an answer", status.as_u16()),
        }),
        false => Ok(()),
    }
}

/// The end of a call.
pub fn end(logs: Logs, usage: Usage, reusable: bool, fault: Option<Fault>) -> CallEnd {
    let (logs, logs_truncated) = logs.finish();
    CallEnd { logs, logs_truncated, usage, reusable, fault }
}

/// A call that is over.
pub fn done(result: Result<Reply, Fault>, logs: Logs, usage: Usage, reusable: bool) -> Invoked {
    Invoked::Done { result, end: end(logs, usage, reusable, None) }
}

/// A call that could not be given to the instance.
pub fn refused(cause: &str) -> Invoked {
    not_given(Fault::Platform { cause: cause.to_owned() })
}

/// The same, for this reason.
pub fn not_given(fault: Fault) -> Invoked {
    Invoked::Done { result: Err(fault), end: CallEnd { reusable: true, ..CallEnd::default() } }
}

/// A JSON answer, checked; or why it is none.
pub fn json(body: bytes::Bytes, allowed: u64) -> Result<Reply, Fault> {
    if body.len() as u64 > allowed {
        return Err(too_large(body.len() as u64, allowed, &body));
    }
    if !crate::json::is_object_or_array(&body) {
        return Err(Fault::InvalidAnswer { text: crate::json::beginning(&body) });
    }
    Ok(Reply { head: ReplyHead::Json, body })
}

/// The fault of a result that is longer than allowed.
pub fn too_large(size: u64, allowed: u64, body: &[u8]) -> Fault {
    let shown = body.len().min(usize::try_from(allowed).unwrap_or(usize::MAX));
    Fault::ResultTooLarge { size, allowed, beginning: bytes::Bytes::copy_from_slice(&body[..shown]) }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn connection_headers_go() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("connection", "x-own, close"), ("x-own", "1"), ("x-kept", "1"), ("te", "gzip")]
        {
            headers.insert(name, HeaderValue::from_static(value));
        }
        remove_hop_by_hop(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-kept"]);
    }
}
