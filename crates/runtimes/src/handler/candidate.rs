//! A runtime with a loaded function that is to become a snapshot: warmed up by calls, then frozen.

use std::{
    future::poll_fn,
    sync::Arc,
    time::{Duration, Instant},
};

use flint_executor::{
    Call, CallEnd, Fault, Invoked, Reply, ReplyHead,
    link::{ErrorKind, Frame, FrameKind, Freeze, LinkFailure},
};
use flint_gate::Gate;
use flint_model::{ByteSize, SnapshotReport};
use flint_sandbox::{CodeImage, Sandbox, SealSpec, Sealed};
use tokio::sync::Mutex;

use super::{
    Cell,
    call::{self, Outcome},
    channel::{Channel, Event},
    frozen::Frozen,
    launch::{Phase, fault_of_error},
    upload::Upload,
};
use crate::process::{ending, logs::Logs};

/// How long the launcher may take to inspect the frozen runtime. It does so at once unless it is overloaded.
const SEALED_WITHIN: Duration = Duration::from_secs(30);
/// How much of the output during the freeze is kept.
const MAX_LOGS: ByteSize = ByteSize::kib(64);
/// Longer answers are not searched for an error.
const ERROR_MAX: usize = 64 << 10;

/// Limits on a report, which is stored and shown repeatedly.
const MAX_FUNCTIONS: usize = 200;
const MAX_NOTES: usize = 50;
const MAX_NOTE: usize = 2048;
const MAX_NAME: usize = 256;
/// Longest reason.
const MAX_REFUSAL: usize = 16 << 10;

/// Why there is no snapshot. Nothing of the candidate is left.
#[derive(Debug)]
pub enum NotFrozen {
    /// The function cannot be frozen, for this reason, worded for its developer; it can be run in another
    /// way.
    Refused(String),
    /// The attempt failed.
    Broken(Fault),
}

/// A runtime with a loaded function, which can be frozen.
pub struct Candidate {
    sandbox: Arc<Sandbox>,
    gate: Option<Gate>,
    channel: Arc<Mutex<Channel>>,
    image: Option<Arc<CodeImage>>,
}

impl Candidate {
    /// # Errors
    /// Why the runtime cannot be frozen; nothing is left of it then.
    pub async fn new(cell: Cell) -> Result<Self, NotFrozen> {
        let why = match &cell.hello.snapshot {
            Some(serde_json::Value::Bool(true)) => None,
            Some(serde_json::Value::String(why)) => Some(why.clone()),
            _ => {
                Some(format!("the shim for {} {} knows no snapshots", cell.hello.runtime, cell.hello.version))
            }
        };
        match why {
            None => Ok(Self {
                sandbox: cell.sandbox,
                gate: cell.gate,
                channel: Arc::new(Mutex::new(cell.channel)),
                image: cell.image,
            }),
            Some(why) => {
                ending::completely(&cell.sandbox).await;
                Err(NotFrozen::Refused(why))
            }
        }
    }

    /// Makes a call that the shim keeps, to repeat it when it is frozen. Reads a streamed answer to its end.
    pub async fn warm_up(&self, call: Call) -> (Result<(), Fault>, CallEnd) {
        let Ok(channel) = Arc::clone(&self.channel).try_lock_owned() else {
            let cause = "a warm-up call is under way".to_owned();
            return (Err(Fault::Platform { cause }), CallEnd::default());
        };
        let (invoked, relay) = match call::run(channel, Arc::clone(&self.sandbox), call, true).await {
            Outcome::Over(invoked) => (invoked, None),
            Outcome::Streaming(invoked, relay) => (invoked, Some(relay)),
        };
        match (invoked, relay) {
            (Invoked::Done { result, end }, _) => (result.and_then(|reply| refused(&reply)), end),
            (Invoked::Streaming { mut body, end, .. }, Some(relay)) => {
                let drained = async { while body.recv().await.is_some() {} };
                tokio::join!(relay.run(), drained);
                let end = end.await.unwrap_or_default();
                (end.fault.clone().map_or(Ok(()), Err), end)
            }
            (Invoked::Streaming { .. }, None) => (Ok(()), CallEnd::default()),
        }
    }

    /// Has the shim finish the warm-up and wait to be forked, by the deadline, and has it inspected from
    /// outside.
    ///
    /// # Errors
    /// Why there is no snapshot.
    pub async fn freeze(
        self,
        freeze: &Freeze,
        expect: &SealSpec,
        deadline: Instant,
    ) -> Result<(Frozen, SnapshotReport, Sealed), NotFrozen> {
        let Self { sandbox, gate, channel, image } = self;
        let Some(channel) = Arc::into_inner(channel) else {
            ending::completely(&sandbox).await;
            return Err(NotFrozen::Broken(Fault::Platform { cause: "a warm-up call is under way".into() }));
        };
        let mut channel = channel.into_inner();
        match ask(&mut channel, &sandbox, freeze, deadline).await {
            Ok(report) => match in_time(SEALED_WITHIN, sandbox.seal(expect)).await {
                Ok(sealed) => Ok((Frozen::new(sandbox, gate, channel, image), report, sealed)),
                Err(reason) => {
                    ending::completely(&sandbox).await;
                    Err(reason)
                }
            },
            Err(reason) => {
                ending::completely(&sandbox).await;
                Err(reason)
            }
        }
    }
}

/// The launcher's verdict on a frozen runtime, with a timeout.
async fn in_time<T>(
    within: Duration,
    sealing: impl Future<Output = Result<T, flint_sandbox::Error>>,
) -> Result<T, NotFrozen> {
    let platform = |cause: String| NotFrozen::Broken(Fault::Platform { cause });
    match tokio::time::timeout(within, sealing).await {
        Ok(Ok(sealed)) => Ok(sealed),
        Ok(Err(flint_sandbox::Error::NotForkable { reasons, .. })) => {
            Err(NotFrozen::Refused(reasons.join("; ")))
        }
        Ok(Err(other)) => Err(platform(other.to_string())),
        Err(_) => Err(platform(format!(
            "the sandbox launcher has not looked at the frozen runtime within {} s",
            within.as_secs()
        ))),
    }
}

/// The fault that an answer with an `error` reports.
fn refused(reply: &Reply) -> Result<(), Fault> {
    if !matches!(reply.head, ReplyHead::Json) || reply.body.len() > ERROR_MAX {
        return Ok(());
    }
    match serde_json::from_slice::<serde_json::Value>(&reply.body) {
        Ok(serde_json::Value::Object(fields)) => match fields.get("error") {
            Some(serde_json::Value::String(message)) => Err(Fault::Developer { message: message.clone() }),
            Some(error) => Err(Fault::Developer { message: error.to_string() }),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

async fn ask(
    channel: &mut Channel,
    sandbox: &Sandbox,
    freeze: &Freeze,
    deadline: Instant,
) -> Result<SnapshotReport, NotFrozen> {
    let platform = |cause: String| NotFrozen::Broken(Fault::Platform { cause });
    let json = serde_json::to_vec(freeze).map_err(|error| platform(error.to_string()))?;
    channel.timer.set(deadline);
    channel.send(FrameKind::Freeze, 0, &json);
    let mut logs = Logs::new(MAX_LOGS);
    let event = loop {
        let mut upload = Upload::none();
        match poll_fn(|cx| channel.poll(cx, &mut logs, &mut upload)).await {
            // A late frame of a warm-up call.
            Event::Frame(frame) if frame.call != 0 => {}
            other => break other,
        }
    };
    match event {
        Event::Frame(frame) if frame.kind == FrameKind::Ack => serde_json::from_slice(&frame.payload)
            .map(bounded)
            .map_err(|error| NotFrozen::Broken(Phase::Loaded.breach(format!("the report: {error}")))),
        Event::Frame(frame) if frame.kind == FrameKind::Error => Err(refusal(&frame)),
        Event::Frame(frame) => {
            Err(NotFrozen::Broken(Phase::Loaded.breach(format!("{} came for FREEZE", frame.kind.as_str()))))
        }
        Event::Deadline => Err(NotFrozen::Broken(Fault::Deadline)),
        Event::Closed => {
            Err(NotFrozen::Broken(ending::of_itself(sandbox, &mut channel.output, &mut logs).await))
        }
        Event::Broken(error) => Err(NotFrozen::Broken(Phase::Loaded.breach(error.to_string()))),
        Event::Abandoned(error) => Err(platform(error.to_string())),
    }
}

fn refusal(frame: &Frame) -> NotFrozen {
    match serde_json::from_slice::<LinkFailure>(&frame.payload) {
        Ok(mut failure) if failure.kind == ErrorKind::Snapshot => {
            cut(&mut failure.message, MAX_REFUSAL);
            NotFrozen::Refused(failure.message)
        }
        _ => NotFrozen::Broken(fault_of_error(frame, Phase::Loaded)),
    }
}

/// Cuts a report to its limits, since its process is not trusted.
fn bounded(mut report: SnapshotReport) -> SnapshotReport {
    report.functions.truncate(MAX_FUNCTIONS);
    for function in &mut report.functions {
        for text in [&mut function.name, &mut function.file, &mut function.tier] {
            cut(text, MAX_NAME);
        }
    }
    report.notes.truncate(MAX_NOTES);
    for note in &mut report.notes {
        cut(note, MAX_NOTE);
    }
    report
}

fn cut(text: &mut String, most: usize) {
    text.truncate(text.floor_char_boundary(most));
}

#[cfg(test)]
mod tests {
    use flint_model::WarmedFunction;

    use super::*;

    #[tokio::test]
    async fn a_launcher_that_does_not_answer_is_not_waited_for() {
        let never = std::future::pending::<Result<(), flint_sandbox::Error>>();
        let gave_up = in_time(Duration::from_millis(10), never).await;
        assert!(
            matches!(&gave_up, Err(NotFrozen::Broken(Fault::Platform { cause })) if cause.contains("launcher")),
            "{gave_up:?}"
        );
    }

    #[test]
    fn reports_are_bounded() {
        let long = "ä".repeat(100_000);
        let function = WarmedFunction { name: long.clone(), ..WarmedFunction::default() };
        let report = bounded(SnapshotReport {
            functions: vec![function; 1000],
            notes: vec![long; 1000],
            ..SnapshotReport::default()
        });
        assert_eq!((report.functions.len(), report.notes.len()), (MAX_FUNCTIONS, MAX_NOTES));
        assert!(report.functions.iter().all(|function| function.name.len() <= MAX_NAME));
        assert!(report.notes.iter().all(|note| note.len() <= MAX_NOTE && !note.is_empty()));
    }
}
