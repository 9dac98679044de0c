//! An instance of contract `actionloop`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use flint_executor::{BRING_UP, Call, Fault, Instance, Invoked, Reply};
use flint_model::{ByteSize, Function, InstanceId};
use flint_runtimes::{
    json, outcome,
    prepare::artefact::SharedArtefact,
    process::{command, ending, logs::Logs, meter, starter::Starter, timer::Timer},
};
use flint_sandbox::{Sandbox, SandboxIo, SandboxSpec};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::wire::{Pipes, Wire};
use crate::run_request;

/// Set for programs that report when they are ready.
const WAIT_FOR_ACK: &str = "__OW_WAIT_FOR_ACK";
/// The longest such report.
const ACK_MAX: u64 = 64 << 10;

/// A resident program that waits for lines.
pub(crate) struct ActionLoop {
    id: InstanceId,
    function: Arc<Function>,
    sandbox: Arc<Sandbox>,
    wire: Mutex<Wire>,
    /// Keeps the code on disk for as long as the sandbox sees it.
    _artefact: SharedArtefact,
}

/// A program to be started.
pub(crate) struct Start<'a> {
    pub(crate) function: &'a Arc<Function>,
    pub(crate) artefact: &'a SharedArtefact,
    pub(crate) spec: SandboxSpec,
    pub(crate) id: InstanceId,
    /// As in a [`StartContext`](flint_executor::StartContext).
    pub(crate) deadline: Instant,
}

/// The program's report that it is ready.
#[derive(Deserialize)]
struct Ack {
    #[serde(default)]
    ok: bool,
    error: Option<String>,
}

impl Start<'_> {
    /// Starts the program and waits for its report, if it makes one. Also returns how long it took until the
    /// program was started.
    pub(crate) async fn bring_up(
        mut self,
        starter: &Starter,
        began: Instant,
        logs: &mut Logs,
    ) -> Result<(ActionLoop, Duration), Fault> {
        let acknowledges = command::acknowledges(self.artefact);
        if acknowledges {
            command::set_all(&mut self.spec.env, [(WAIT_FOR_ACK.to_owned(), "1".to_owned())]);
        }
        let (pipes, theirs) = Pipes::open().map_err(|error| Fault::Platform {
            cause: format!(
                "the program's pipes could not be made: {error}; raise the limit of open files (ulimit -n)"
            ),
        })?;
        let io = SandboxIo {
            stdin: Some(theirs.stdin),
            stdout: theirs.stdout,
            stderr: theirs.stderr,
            link: Some(theirs.answers),
        };
        // From outside, the interpreter's start cannot be told from the function's loading.
        let up_by = self.deadline + BRING_UP;
        let sandbox = match tokio::time::timeout_at(up_by.into(), starter.start(&self.spec, io)).await {
            Err(_) => return Err(Fault::Deadline),
            Ok(Err(error)) => return Err(ending::fault_of_start(&error, true)),
            Ok(Ok(sandbox)) => Arc::new(sandbox),
        };
        let started = began.elapsed();
        let mut wire = Wire::new(Arc::clone(&sandbox), pipes, Timer::new(up_by));
        if acknowledges {
            let said = match wire.exchange(Bytes::new(), ACK_MAX, logs).await {
                Ok(line) => acknowledged(&line.text),
                Err(broken) => Err(wire.fault(broken, logs).await),
            };
            wire.drain(logs);
            if let Err(fault) = said {
                ending::completely(&sandbox).await;
                return Err(fault);
            }
        }
        wire.meter.reset(&sandbox).await;
        let (function, artefact) = (Arc::clone(self.function), Arc::clone(self.artefact));
        let instance =
            ActionLoop { id: self.id, function, sandbox, wire: Mutex::new(wire), _artefact: artefact };
        Ok((instance, started))
    }
}

/// Whether the program reports that it is ready.
pub(super) fn acknowledged(line: &[u8]) -> Result<(), Fault> {
    match serde_json::from_slice::<Ack>(line) {
        Ok(Ack { ok: true, .. }) => Ok(()),
        Ok(Ack { error: Some(message), .. }) => Err(Fault::Developer { message }),
        _ => Err(Fault::Developer {
            message: format!(
                "the program's first line on descriptor 3 is to be {{\"ok\":true}} when {WAIT_FOR_ACK} is set, and was: {}",
                json::beginning(line)
            ),
        }),
    }
}

#[async_trait]
impl Instance for ActionLoop {
    fn id(&self) -> InstanceId {
        self.id
    }

    async fn invoke(&self, mut call: Call) -> Invoked {
        let Ok(mut wire) = self.wire.try_lock() else {
            return outcome::refused("the instance is serving another call");
        };
        let (began, allowed) = (Instant::now(), call.max_result.as_u64());
        let arguments = match run_request::arguments(&mut call).await {
            Ok(arguments) => arguments,
            Err(error) => return outcome::not_given(Fault::Request(error)),
        };
        let line = match run_request::of(&self.function, &call, &arguments) {
            Ok(line) => one_line(line),
            Err(fault) => return outcome::not_given(fault),
        };
        let mut logs = Logs::new(call.max_logs);
        wire.timer.set(call.deadline);
        wire.forget_idle_lines();
        wire.forget_idle_output();
        let (result, reusable) = match wire.exchange(line, allowed, &mut logs).await {
            Ok(line) if line.size > allowed => {
                (Err(outcome::too_large(line.size, allowed, &line.text)), line.was_asked)
            }
            Ok(line) => (outcome::json(line.text, allowed), line.was_asked),
            Err(broken) => (Err::<Reply, _>(wire.fault(broken, &mut logs).await), false),
        };
        wire.drain(&mut logs);
        let usage = wire.meter.after_call(&self.sandbox, began).await;
        outcome::done(result, logs, usage, reusable)
    }

    async fn memory(&self) -> Option<ByteSize> {
        meter::memory(&self.sandbox).await
    }

    async fn pause(&self) {
        ending::pause(&self.sandbox).await;
    }

    async fn resume(&self) {
        ending::resume(&self.sandbox).await;
    }

    async fn ended(&self) {
        self.sandbox.wait().await;
    }

    async fn stop(&self) {
        ending::completely(&self.sandbox).await;
    }
}

impl Drop for ActionLoop {
    fn drop(&mut self) {
        self.sandbox.kill();
    }
}

/// Puts the JSON on one line. Within JSON, line breaks occur between tokens only.
fn one_line(mut json: Vec<u8>) -> Bytes {
    for byte in &mut json {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    json.push(b'\n');
    json.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_one_line() {
        assert_eq!(one_line(b"{\r\n \"a\\n\": 1\n}".to_vec()), "{   \"a\\n\": 1 }\n");
    }

    #[test]
    fn a_program_says_that_it_is_ready_or_why_not() {
        assert_eq!(acknowledged(br#"{"ok":true}"#), Ok(()));
        let said = acknowledged(br#"{"error":"no main"}"#).unwrap_err();
        assert_eq!(said, Fault::Developer { message: "no main".into() });
        for line in [&b""[..], b"{}", b"ready", br#"{"ok":false}"#] {
            assert!(matches!(acknowledged(line), Err(Fault::Developer { .. })));
        }
    }
}
