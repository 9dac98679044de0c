//! Putting together what a call came to.

use flint_executor::{CallEnd, Fault, Invoked, Reply, ReplyHead, remove_hop_by_hop};
use flint_model::Usage;
use http::{HeaderMap, StatusCode};

use crate::process::logs::Logs;

/// The head of an HTTP answer; or why it is none: an informational status announces another.
pub fn http(status: StatusCode, mut headers: HeaderMap) -> Result<ReplyHead, Fault> {
    if status.is_informational() {
        return Err(Fault::InvalidAnswer {
            text: format!("{} is not an HTTP status of an answer", status.as_u16()),
        });
    }
    remove_hop_by_hop(&mut headers);
    Ok(ReplyHead::Http { status, headers })
}

/// The end of a call.
pub fn end(logs: Logs, usage: Usage, reusable: bool, fault: Option<Fault>) -> CallEnd {
    let (logs, logs_truncated) = logs.finish();
    CallEnd { logs, logs_truncated, usage, reusable, fault, streamed: 0 }
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
