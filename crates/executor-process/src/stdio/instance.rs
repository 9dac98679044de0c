//! An instance of contract `stdio` or `skeleton`: one process per call, in a fresh sandbox or a long-lived
//! one.

use std::{future::poll_fn, task::Poll};

use async_trait::async_trait;
use bytes::Bytes;
use flint_executor::{
    Body, BodySender, Call, CallEnd, Fault, Instance, Invoked, LastWord, Reply, ReplyHead, body_channel,
};
use flint_model::{ByteSize, InstanceId, Usage};
use flint_sandbox::{Exit, ExitStatus};
use http::{HeaderMap, HeaderValue, StatusCode, header::CONTENT_TYPE};
use tokio::sync::oneshot;

use super::{
    feed::Feed,
    last_line::LastLine,
    place::{Place, Task, no_descriptors},
    pump::{Event, Pump},
    window::Window,
};
use crate::run_request;
use flint_runtimes::{
    json, outcome,
    prepare::artefact::SharedArtefact,
    process::{ending, logs::Logs, meter, output, output::Output, relay::RelayTask, timer::Timer},
};

/// An answer up to this length is examined as a whole; a longer one is streamed.
pub(super) const WHOLE: usize = 1 << 20;
/// Linux's limit on a single argument is 128 KiB with its NUL (MAX_ARG_STRLEN).
const ARGUMENT_MAX: usize = (128 << 10) - 1;
const TOO_LONG: &str = "the arguments are longer than the 128 KB that a program can be given in argv[1]: choose the contract stdio or actionloop, whose programs read them";

/// How a program receives its arguments and where its answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// The body is on stdin; the answer is all of stdout.
    Stdio,
    /// The body is in `argv[1]` as well; the answer is the last line of stdout, and what precedes it is log.
    Skeleton,
}

/// A program, run once per call.
pub(crate) struct StdioInstance {
    id: InstanceId,
    place: Place,
    style: Style,
    relay: RelayTask,
    /// Keeps the code on disk for as long as the sandbox sees it.
    _artefact: SharedArtefact,
}

/// The form of result that the call wants.
#[derive(Clone, Copy)]
struct Wanted {
    /// Whether it came as JSON rather than as an HTTP request.
    json: bool,
    max_result: u64,
}

impl StdioInstance {
    pub(crate) fn new(id: InstanceId, place: Place, style: Style, artefact: SharedArtefact) -> Self {
        Self { id, place, style, relay: RelayTask::default(), _artefact: artefact }
    }

    /// Starts the process, with the beginning of the call's body in its stdin already.
    async fn begin(&self, arguments: Vec<String>, call: Call, logs: Logs) -> Result<Pump, (Fault, Logs)> {
        let env = [call.variables(), call.request_variables()].concat();
        let timer = Timer::new(call.deadline);
        let pipes = Feed::new(call.body).and_then(|(feed, stdin)| {
            let (stdout, out) = output::pipe_from()?;
            let (output, stderr) = Output::stderr_only()?;
            Ok((feed, stdout, output, Task { arguments, env, stdin, stdout: out, stderr }))
        });
        let (feed, stdout, output, task) = match pipes {
            Ok(pipes) => pipes,
            Err(error) => return Err((no_descriptors(&error), logs)),
        };
        match self.place.start(task, call.deadline).await {
            Ok(process) => Ok(Pump::new(process, feed, stdout, output, logs, timer)),
            Err(fault) => Err((fault, logs)),
        }
    }

    async fn invoke_skeleton(&self, mut call: Call) -> Invoked {
        let logs = Logs::new(call.max_logs);
        let developer = |message: String, logs| {
            outcome::done(Err(Fault::Developer { message }), logs, Usage::default(), false)
        };
        let arguments = match run_request::arguments(&mut call).await {
            Ok(arguments) if arguments.is_empty() => Bytes::from_static(b"{}"),
            Ok(arguments) => arguments,
            Err(error) => return outcome::not_given(Fault::Request(error)),
        };
        let argument = match std::str::from_utf8(&arguments) {
            Ok(text) if text.len() <= ARGUMENT_MAX && !text.contains('\0') => text.to_owned(),
            _ => return developer(TOO_LONG.to_owned(), logs),
        };
        call.body = Body::Full(arguments);
        let max_result = call.max_result.as_u64();
        let mut pump = match self.begin(vec![argument], call, logs).await {
            Ok(pump) => pump,
            Err((fault, logs)) => return outcome::done(Err(fault), logs, Usage::default(), false),
        };
        let mut last = LastLine::new(max_result);
        loop {
            match pump.next().await {
                Event::Piece(piece) => last.push(&piece, &mut pump.logs),
                Event::Ended(exit) => {
                    let result = match (last.finish(), success(&exit, &pump.logs)) {
                        // As in OpenWhisk, the exit code does not matter once there is an answer.
                        (Ok(answer), Ok(()) | Err(Fault::Developer { .. })) => {
                            outcome::json(answer, max_result)
                        }
                        (Err(fault), Ok(())) | (_, Err(fault)) => Err(fault),
                    };
                    return over(result, pump, &exit);
                }
                other => return cut_short(pump, other).await,
            }
        }
    }
}

#[async_trait]
impl Instance for StdioInstance {
    fn id(&self) -> InstanceId {
        self.id
    }

    async fn invoke(&self, call: Call) -> Invoked {
        if self.style == Style::Skeleton {
            return self.invoke_skeleton(call).await;
        }
        let wanted = Wanted { json: call.head.is_none(), max_result: call.max_result.as_u64() };
        let logs = Logs::new(call.max_logs);
        let mut pump = match self.begin(Vec::new(), call, logs).await {
            Ok(pump) => pump,
            Err((fault, logs)) => return outcome::done(Err(fault), logs, Usage::default(), false),
        };
        let mut window = Window::new(WHOLE, wanted.json.then_some(wanted.max_result));
        loop {
            match pump.next().await {
                Event::Piece(piece) if window.take(&piece) => {}
                Event::Piece(piece) => {
                    let (sender, body) = body_channel();
                    let (ended, end) = oneshot::channel();
                    self.relay.spawn(relay(pump, [window.kept(), piece], sender, ended));
                    return Invoked::Streaming { head: http("application/octet-stream"), body, end };
                }
                Event::Ended(exit) => {
                    let result = success(&exit, &pump.logs).and_then(|()| match window.too_long() {
                        Some(size) => Err(outcome::too_large(size, wanted.max_result, &window.kept())),
                        None => reply(window.kept(), wanted),
                    });
                    return over(result, pump, &exit);
                }
                other => return cut_short(pump, other).await,
            }
        }
    }

    async fn memory(&self) -> Option<ByteSize> {
        meter::memory(self.place.sandbox()?).await
    }

    async fn pause(&self) {
        if let Some(sandbox) = self.place.sandbox() {
            ending::pause(sandbox).await;
        }
    }

    async fn resume(&self) {
        if let Some(sandbox) = self.place.sandbox() {
            ending::resume(sandbox).await;
        }
    }

    async fn ended(&self) {
        self.place.ended().await;
    }

    async fn stop(&self) {
        self.place.close();
        if let Some(sandbox) = self.place.sandbox() {
            ending::completely(sandbox).await;
        }
        self.relay.finish().await;
    }
}

impl Drop for StdioInstance {
    fn drop(&mut self) {
        if let Some(sandbox) = self.place.sandbox() {
            sandbox.kill();
        }
    }
}

/// The result of a call whose process has ended by itself.
fn over(result: Result<Reply, Fault>, pump: Pump, exit: &Exit) -> Invoked {
    let reusable = pump.process.is_reusable();
    outcome::done(result, pump.logs, meter::of_exit(exit), reusable)
}

/// The result of a call that ends before its process does.
async fn cut_short(mut pump: Pump, event: Event) -> Invoked {
    let (fault, usage) = broken(&mut pump, event).await;
    outcome::done(Err(fault), pump.logs, usage, false)
}

/// Streams the rest of a long answer.
async fn relay(mut pump: Pump, pieces: [Bytes; 2], caller: BodySender, ended: oneshot::Sender<CallEnd>) {
    let last_word = LastWord::of(&caller);
    let mut caller = Some(caller);
    let mut pieces = pieces.into_iter().filter(|piece| !piece.is_empty());
    let mut streamed = 0;
    let (fault, usage, reusable) = loop {
        let event = match pieces.next() {
            Some(piece) => Event::Piece(piece),
            None => pump.next().await,
        };
        match event {
            Event::Piece(piece) => {
                let length = piece.len() as u64;
                if let Err(event) = hand_on(&mut pump, &mut caller, piece).await {
                    let (fault, usage) = broken(&mut pump, event).await;
                    break (Some(fault), usage, false);
                }
                if caller.is_some() {
                    streamed += length;
                }
            }
            Event::Ended(exit) => {
                // If nobody reads any more, a failure is expected and reported to nobody.
                let fault = success(&exit, &pump.logs).err().filter(|_| caller.is_some());
                break (fault, meter::of_exit(&exit), pump.process.is_reusable());
            }
            other => {
                let (fault, usage) = broken(&mut pump, other).await;
                break (Some(fault), usage, false);
            }
        }
    };
    match &fault {
        Some(fault) => last_word.broken(fault),
        None => last_word.complete(),
    }
    drop(caller);
    let end = outcome::end(pump.logs, usage, reusable, fault);
    let _ = ended.send(CallEnd { streamed, ..end });
}

/// Passes a piece on to the caller, if it is still there, waiting within the time limit.
async fn hand_on(pump: &mut Pump, caller: &mut Option<BodySender>, piece: Bytes) -> Result<(), Event> {
    let Some(sender) = caller else { return Ok(()) };
    let taken = {
        let mut sending = std::pin::pin!(sender.send(Ok(piece)));
        poll_fn(|cx| match sending.as_mut().poll(cx) {
            Poll::Ready(sent) => Poll::Ready(Ok(sent.is_ok())),
            Poll::Pending => pump.poll_meanwhile(cx).map(Err),
        })
        .await?
    };
    if !taken {
        // As in a shell pipeline, the program gets SIGPIPE when it goes on writing.
        (*caller, pump.stdout) = (None, None);
    }
    Ok(())
}

/// The fault of a call that is cut short, and its resource usage.
async fn broken(pump: &mut Pump, event: Event) -> (Fault, Usage) {
    ending::by_force(pump.process.sandbox(), &mut pump.output, &mut pump.logs).await;
    let fault = match event {
        Event::NotExecuted(fault) => fault,
        Event::Abandoned(error) => Fault::Request(error),
        _ => Fault::Deadline,
    };
    (fault, meter::of_ended(pump.process.sandbox()).await)
}

/// Whether the program succeeded.
fn success(exit: &Exit, logs: &Logs) -> Result<(), Fault> {
    match exit.status {
        ExitStatus::Code(0) if !exit.oom => Ok(()),
        ExitStatus::Code(code) if !exit.oom => {
            let last = logs.last_error_line().map(|line| format!(": {line}")).unwrap_or_default();
            Err(Fault::Developer { message: format!("the program ended with exit code {code}{last}") })
        }
        _ => Err(ending::fault_of(exit, logs)),
    }
}

fn reply(body: Bytes, wanted: Wanted) -> Result<Reply, Fault> {
    if json::is_object_or_array(&body) {
        if wanted.json {
            return outcome::json(body, wanted.max_result);
        }
        return Ok(Reply { head: http("application/json"), body });
    }
    let text = std::str::from_utf8(&body).is_ok_and(|text| {
        text.chars()
            .all(|letter| !letter.is_control() || matches!(letter, '\n' | '\r' | '\t' | '\u{1b}' | '\u{c}'))
    });
    let media_type = if text { "text/plain; charset=utf-8" } else { "application/octet-stream" };
    Ok(Reply { head: http(media_type), body })
}

fn http(media_type: &'static str) -> ReplyHead {
    let mut headers = HeaderMap::with_capacity(1);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    ReplyHead::Http { status: StatusCode::OK, headers }
}
