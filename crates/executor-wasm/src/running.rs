//! A running call, and how it ends.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use flint_executor::{CallEnd, Fault, Invoked, Reply};
use flint_model::{ByteSize, Usage};
use flint_runtimes::{json, outcome};

use crate::{
    answer::{self, Wanted},
    breach::Breach,
    cut::cut,
    drive::{Cut, Spent},
    exchange::{Exchange, Head, Source},
    fault,
    host::LogSink,
    limits::Starved,
    state::Pace,
};

const NO_RESPONSE: &str = "the function ended without a response: it has to call response-outparam.set";

/// The state of a call outside its guest.
pub(crate) struct Running {
    pub(crate) logs: LogSink,
    pub(crate) pace: Arc<Pace>,
    pub(crate) wanted: Wanted,
    /// Tells whether the guest's request broke off.
    pub(crate) breach: Breach,
}

impl Running {
    pub(crate) fn end(self, fault: Option<Fault>, usage: Usage) -> CallEnd {
        let (logs, logs_truncated) = self.logs.finish();
        CallEnd { logs, logs_truncated, usage, reusable: true, fault, streamed: 0 }
    }

    pub(crate) fn done(self, result: Result<Reply, Fault>, usage: Usage) -> Invoked {
        Invoked::Done { result, end: self.end(None, usage) }
    }

    pub(crate) fn failed(self, error: &wasmtime::Error, starved: Starved, usage: Usage) -> Invoked {
        let fault = self.breach.or(fault::of(error, starved, self.logs.last_error_line()));
        self.done(Err(fault), usage)
    }

    /// The result of a call whose answer is complete and whose guest has ended. `too_long`: the length of a
    /// JSON result that was not kept entirely.
    pub(crate) fn whole(self, mut exchange: Exchange, too_long: Option<u64>, spent: &Spent) -> Invoked {
        let Some(ended) = exchange.ended.take() else {
            return self.done(Err(platform("the function's end was not seen")), usage(spent, None));
        };
        let usage = usage(spent, Some(ended.memory));
        if let Err(error) = &ended.outcome {
            return self.failed(error, ended.starved, usage);
        }
        let body = exchange.whole.split().freeze();
        let wanted = self.wanted;
        let too_long = too_long.map(|size| outcome::too_large(size, wanted.max_result, &body));
        let result = match &exchange.source {
            Source::Stdout(_) => too_long.map_or_else(|| answer::of_bytes(body, wanted), Err),
            Source::Http { head: Head::Here(_), .. } => {
                match (exchange.broken.take(), exchange.take_head()) {
                    (None, Some((status, headers))) => {
                        too_long.map_or_else(|| http_reply(status, headers, body, wanted), Err)
                    }
                    (why, _) => Err(self.breach.or(developer(why.unwrap_or_default()))),
                }
            }
            Source::Http { head: Head::Refused(code), .. } => {
                Err(self.breach.or(developer(format!("the function answered with the error {code}"))))
            }
            Source::Http { .. } => Err(self.breach.or(developer(NO_RESPONSE.to_owned()))),
        };
        self.done(result, usage)
    }
}

/// A call that came as JSON and is answered with JSON gets a JSON result, any other the HTTP response.
fn http_reply(
    status: http::StatusCode,
    headers: http::HeaderMap,
    body: Bytes,
    wanted: Wanted,
) -> Result<Reply, Fault> {
    if wanted.json && status.is_success() && json::is_object_or_array(&body) {
        return outcome::json(body, wanted.max_result);
    }
    Ok(Reply { head: outcome::http(status, headers)?, body })
}

pub(crate) fn fault_of(cut: Cut) -> Fault {
    match cut {
        Cut::Deadline => Fault::Deadline,
        Cut::Lost => platform("the thread that ran the function ended; the server's log says why"),
    }
}

pub(crate) fn platform(cause: &str) -> Fault {
    Fault::Platform { cause: cause.to_owned() }
}

pub(crate) fn developer(message: String) -> Fault {
    Fault::Developer { message: cut(message) }
}

pub(crate) fn usage(spent: &Spent, memory: Option<usize>) -> Usage {
    usage_of(spent.so_far(), memory)
}

pub(crate) fn usage_of(cpu: Duration, memory: Option<usize>) -> Usage {
    Usage {
        cpu_us: Some(cpu.as_micros() as u64),
        memory_peak: memory.map(|bytes| ByteSize::bytes(bytes as u64)),
    }
}
