//! Starts a shim and has it load a function.

use std::{future::poll_fn, sync::Arc, time::Instant};

use flint_executor::{
    Fault,
    link::{ErrorKind, Frame, FrameKind, Hello, Init, LinkFailure},
};
use flint_gate::Gate;
use flint_sandbox::{CodeImage, Sandbox, SandboxIo, SandboxSpec};

use super::{
    channel::{Channel, Event},
    upload::Upload,
};
use crate::process::{ending, logs::Logs, starter::Starter};

const PROTOCOL: u32 = 1;

/// A sandbox with a shim that has sent its HELLO and waits for a function.
#[derive(Debug)]
pub struct Cell {
    /// The sandbox.
    pub sandbox: Arc<Sandbox>,
    /// Its gate to the API, if its function has one.
    pub gate: Option<Gate>,
    pub(super) channel: Channel,
    /// The shim's first message.
    pub(super) hello: Hello,
    /// The shared image of the runtime's code, if it uses one.
    pub(super) image: Option<Arc<CodeImage>>,
}

/// The content of a valid HELLO frame.
pub(super) fn hello_of(frame: &Frame) -> Option<Hello> {
    let hello: Hello =
        (frame.kind == FrameKind::Hello).then(|| serde_json::from_slice(&frame.payload))?.ok()?;
    (hello.protocol == PROTOCOL).then_some(hello)
}

/// Ends a sandbox whose start failed; returns the fault.
async fn end(
    sandbox: Arc<Sandbox>,
    mut channel: Channel,
    event: Event,
    logs: &mut Logs,
    phase: Phase,
) -> Fault {
    let fault = match event {
        Event::Deadline => {
            ending::by_force(&sandbox, &mut channel.output, logs).await;
            Fault::Deadline
        }
        Event::Closed => ending::of_itself(&sandbox, &mut channel.output, logs).await,
        Event::Abandoned(error) => platform(error.to_string()),
        Event::Broken(error) => phase.breach(format!("what is on the link is no frame: {error}")),
        Event::Frame(frame) if frame.kind == FrameKind::Error => fault_of_error(&frame, phase),
        Event::Frame(frame) => phase.breach(format!("{} came", frame.kind.as_str())),
    };
    channel.output.drain(logs);
    ending::completely(&sandbox).await;
    fault
}

pub(super) fn platform(cause: String) -> Fault {
    Fault::Platform { cause }
}

/// The JVM's error for a full heap, which the shim passes on.
const HEAP_IS_FULL: &str = "java.lang.OutOfMemoryError";

/// Who is responsible for a violation of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Before INIT only Flint's shim has run.
    Starting,
    /// After INIT the function can use the link as well as the shim.
    Loaded,
}

impl Phase {
    /// The fault of an instance that violated the protocol.
    pub(super) fn breach(self, cause: String) -> Fault {
        match self {
            Self::Starting => platform(format!("the runtime does not speak the link protocol: {cause}")),
            Self::Loaded => {
                tracing::debug!(cause, "a function broke the link protocol");
                Fault::Exited { end: None }
            }
        }
    }
}

/// The fault that an ERROR frame reports.
pub(super) fn fault_of_error(frame: &Frame, phase: Phase) -> Fault {
    match serde_json::from_slice::<LinkFailure>(&frame.payload) {
        Ok(failure) if failure.kind != ErrorKind::Developer => {
            phase.breach(format!("the runtime broke off: {}", failure.message))
        }
        Ok(failure) if failure.message.contains(ending::NO_THREAD) => ending::no_thread(),
        Ok(failure) if failure.message.contains(HEAP_IS_FULL) => Fault::OutOfMemory,
        Ok(failure) => Fault::Developer { message: failure.message },
        Err(error) => phase.breach(format!("an ERROR came that cannot be read: {error}")),
    }
}

/// Starts a sandbox and waits for the shim's HELLO. If the runtime shares a code image, it gets that as its
/// stdin at first.
pub(crate) async fn launch(
    starter: &Starter,
    spec: &SandboxSpec,
    image: Option<Arc<CodeImage>>,
    deadline: Instant,
    logs: &mut Logs,
) -> Result<Cell, Fault> {
    let no_pipes = |error: std::io::Error| {
        platform(format!(
            "the pipes of {} could not be made: {error}; raise the limit of open files (ulimit -n)",
            spec.id
        ))
    };
    let (channel, [stdout, stderr, link]) = Channel::open(deadline).map_err(no_pipes)?;
    let stdin = image.as_ref().map(|image| image.descriptor()).transpose().map_err(no_pipes)?;
    let io = SandboxIo { stdin, stdout, stderr, link: Some(link) };
    let starting = tokio::time::timeout_at(deadline.into(), starter.start_with_gate(spec, io));
    let (sandbox, gate) = match starting.await {
        Err(_) => return Err(Fault::Deadline),
        Ok(Err(error)) => return Err(ending::fault_of_start(&error, false)),
        Ok(Ok((sandbox, gate))) => (Arc::new(sandbox), gate),
    };
    let mut channel = channel;
    let event = next(&mut channel, logs).await;
    let hello = match &event {
        Event::Frame(frame) => hello_of(frame),
        _ => None,
    };
    match hello {
        Some(hello) => Ok(Cell { sandbox, gate, channel, hello, image }),
        None => Err(end(sandbox, channel, event, logs, Phase::Starting).await),
    }
}

/// Has the shim load a function.
pub(crate) async fn load(
    mut cell: Cell,
    init: &Init<'_>,
    deadline: Instant,
    logs: &mut Logs,
) -> Result<Cell, Fault> {
    cell.channel.timer.set(deadline);
    match serde_json::to_vec(init) {
        Ok(json) if json.len() <= flint_executor::link::MAX_PAYLOAD => {
            cell.channel.send(FrameKind::Init, 0, &json)
        }
        _ => {
            ending::completely(&cell.sandbox).await;
            return Err(Fault::Developer {
                message: "the function's init parameters are larger than 1 MB".into(),
            });
        }
    }
    let event = next(&mut cell.channel, logs).await;
    if matches!(&event, Event::Frame(frame) if frame.kind == FrameKind::Ready) {
        cell.channel.output.drain(logs);
        return Ok(cell);
    }
    Err(end(cell.sandbox, cell.channel, event, logs, Phase::Loaded).await)
}

async fn next(channel: &mut Channel, logs: &mut Logs) -> Event {
    let mut upload = Upload::none();
    poll_fn(|cx| channel.poll(cx, logs, &mut upload)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_breach_is_the_platforms_before_the_function_is_loaded_and_the_functions_after() {
        let error = |payload: &'static [u8]| Frame {
            kind: FrameKind::Error,
            fin: false,
            call: 0,
            payload: bytes::Bytes::from_static(payload),
        };
        for payload in [&b"\xff"[..], br#"{"kind":"protocol","message":"no"}"#] {
            let frame = error(payload);
            assert!(matches!(fault_of_error(&frame, Phase::Starting), Fault::Platform { .. }));
            assert_eq!(fault_of_error(&frame, Phase::Loaded), Fault::Exited { end: None });
        }
        let said = fault_of_error(&error(br#"{"kind":"developer","message":"no"}"#), Phase::Loaded);
        assert_eq!(said, Fault::Developer { message: "no".into() });
        // A lone surrogate, which is not valid Unicode, does not lose the rest of the message.
        let said = fault_of_error(&error(br#"{"kind":"developer","message":"no \ud83d"}"#), Phase::Loaded);
        assert_eq!(said, Fault::Developer { message: "no \u{fffd}".into() });
        let full = br#"{"kind":"developer","message":"An error has occurred (see logs for details): java.lang.OutOfMemoryError: Java heap space"}"#;
        assert_eq!(fault_of_error(&error(full), Phase::Loaded), Fault::OutOfMemory);
        let no_thread = br#"{"kind":"developer","message":"An error has occurred (see logs for details): java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory or process/resource limits reached"}"#;
        assert_eq!(fault_of_error(&error(no_thread), Phase::Loaded), ending::no_thread());
    }
}
