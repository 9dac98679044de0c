//! Exchanges a request and its response with the server, while collecting its output and enforcing the time
//! limit.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use flint_executor::{BodyError, Fault};
use flint_model::ByteSize;
use flint_sandbox::Sandbox;
use futures_util::FutureExt;
use http::{Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;

use super::{
    body::{RequestBody, Upload},
    connection::{Connection, LONGEST_HEAD, MOST_HEADERS},
};
use flint_runtimes::process::{
    command::PORT, ending, logs::Logs, meter::Meter, output::Output, timer::Timer,
};

/// Pauses between attempts to reach a server that does not listen yet.
const FIRST_WAIT: Duration = Duration::from_millis(2);
const LONGEST_WAIT: Duration = Duration::from_millis(50);
/// How long an idle connection is reused. Servers close connections that are idle for longer, and a server
/// that was paused does so at the very moment of the next request, which would then get no answer.
const KEPT: Duration = Duration::from_secs(1);
/// How long a server that closed its connection may take to exit, if that is why. Most go on running.
const LEAVING: Duration = Duration::from_millis(300);

/// Flint's end of the connection to one server.
pub(super) struct Line {
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) output: Output,
    pub(super) timer: Timer,
    pub(super) meter: Meter,
    connection: Option<Connection>,
    /// Since when the connection has been idle.
    rests_since: Instant,
    /// The progress of the latest request's body, if it is a stream.
    upload: Option<Upload>,
}

/// Why an exchange failed.
#[derive(Debug)]
pub(super) enum Broken {
    Deadline,
    /// The connection broke.
    Connection(String),
    /// The head of the answer is larger than allowed.
    Head,
    /// The caller did not send its whole request.
    Caller(BodyError),
}

impl Line {
    pub(super) fn new(sandbox: Arc<Sandbox>, output: Output, timer: Timer) -> Self {
        let rests_since = Instant::now();
        Self { sandbox, output, timer, meter: Meter::default(), connection: None, rests_since, upload: None }
    }

    /// Waits for `work` while driving the connection, collecting output and watching the deadline.
    async fn during<T>(&mut self, logs: &mut Logs, work: impl Future<Output = T>) -> Result<T, Broken> {
        let mut work = std::pin::pin!(work);
        poll_fn(|cx| {
            if self.timer.poll(cx).is_ready() {
                return Poll::Ready(Err(Broken::Deadline));
            }
            if let Some(connection) = &mut self.connection {
                connection.poll(cx);
            }
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Ok(done));
            }
            self.output.poll(cx, logs);
            Poll::Pending
        })
        .await
    }

    /// Makes sure that there is a usable connection: the idle one, or a new one as soon as the server accepts
    /// it.
    async fn connect(&mut self, logs: &mut Logs) -> Result<(), Broken> {
        self.connection.take_if(|_| self.rests_since.elapsed() > KEPT);
        self.let_go();
        if self.connection.is_some() {
            return Ok(());
        }
        let sandbox = Arc::clone(&self.sandbox);
        let mut wait = FIRST_WAIT;
        loop {
            let opening = async {
                let socket = sandbox.connect(PORT).await.map_err(not_open)?;
                Connection::over(socket).await.map_err(refused)
            };
            match self.during(logs, opening).await? {
                Ok(mut connection) => {
                    if poll_fn(|cx| connection.poll_usable(cx)).await {
                        self.connection = Some(connection);
                        return Ok(());
                    }
                }
                Err(Some(reason)) => return Err(Broken::Connection(reason)),
                Err(None) => {}
            }
            let ended = async {
                tokio::select! {
                    _ = sandbox.wait() => true,
                    () = tokio::time::sleep(wait) => false,
                }
            };
            if self.during(logs, ended).await? {
                return Err(Broken::Connection("it has ended".into()));
            }
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// Closes the connection unless it can take another request at once. A server may answer before it has
    /// been sent the whole request, and after the call nothing would drive the rest.
    pub(super) fn let_go(&mut self) {
        let is_usable = |connection: &mut Connection| poll_fn(|cx| connection.poll_usable(cx)).now_or_never();
        self.connection.take_if(|connection| is_usable(connection) != Some(true));
        self.rests_since = Instant::now();
    }

    /// Waits until the server accepts connections.
    pub(super) async fn reach(&mut self, logs: &mut Logs) -> Result<(), Broken> {
        self.connect(logs).await
    }

    /// Sends a request; returns the head of the answer, with its body to come.
    pub(super) async fn send(
        &mut self,
        request: Request<RequestBody>,
        logs: &mut Logs,
    ) -> Result<Response<Incoming>, Broken> {
        self.upload = request.body().upload();
        let mut request = request;
        // The server may close an idle connection at this very moment. A request of which nothing was sent is
        // sent again.
        for _ in 0..2 {
            self.connect(logs).await?;
            let Some(connection) = &mut self.connection else { break };
            let sending = connection.sender.try_send_request(request);
            match self.during(logs, sending).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(mut error)) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(self.broken(&error.into_error())),
                },
                // The server had no chance to answer.
                Err(Broken::Deadline) if self.upload.as_ref().is_some_and(Upload::waits_for_caller) => {
                    return Err(Broken::Caller(BodyError::Late));
                }
                Err(broken) => return Err(broken),
            }
            self.connection = None;
        }
        Err(Broken::Connection("it closes every connection at once".into()))
    }

    /// The next piece of a body; `None` at its end.
    pub(super) async fn piece(
        &mut self,
        body: &mut Incoming,
        logs: &mut Logs,
    ) -> Result<Option<Bytes>, Broken> {
        loop {
            let frame = self.during(logs, poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx))).await?;
            match frame.map(|frame| frame.map(http_body::Frame::into_data)) {
                None => return Ok(None),
                Some(Ok(Ok(piece))) => return Ok(Some(piece)),
                // Trailers are ignored.
                Some(Ok(Err(_))) => {}
                Some(Err(error)) => return Err(self.broken(&error)),
            }
        }
    }

    /// The next piece of a body, if it has arrived already.
    pub(super) fn piece_at_hand(
        &mut self,
        body: &mut Incoming,
        logs: &mut Logs,
    ) -> Result<Option<Option<Bytes>>, Broken> {
        self.piece(body, logs).now_or_never().transpose()
    }

    /// Reads a whole body and keeps at most `most` bytes of it; also returns its length.
    pub(super) async fn whole(
        &mut self,
        body: &mut Incoming,
        most: u64,
        logs: &mut Logs,
    ) -> Result<(Bytes, u64), Broken> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let (mut whole, mut size) = (BytesMut::new(), 0);
        while let Some(piece) = self.piece(body, logs).await? {
            size += piece.len() as u64;
            whole.extend_from_slice(&piece[..piece.len().min(most - whole.len())]);
        }
        Ok((whole.freeze(), size))
    }

    /// Waits for a caller to take a piece.
    pub(super) async fn meanwhile<T>(
        &mut self,
        logs: &mut Logs,
        work: impl Future<Output = T>,
    ) -> Result<T, Broken> {
        self.during(logs, work).await
    }

    /// Closes the connection, which tells the server that nobody waits for its answer any more.
    pub(super) fn hang_up(&mut self) {
        self.connection = None;
    }

    /// Discards the output since the last call; returns whether there was any.
    pub(super) fn forget_idle_output(&mut self) -> bool {
        let mut nobodys = Logs::new(ByteSize::bytes(0));
        self.output.drain(&mut nobodys);
        nobodys.came() > 0
    }

    /// Collects the output written so far.
    pub(super) fn drain(&mut self, logs: &mut Logs) {
        self.output.drain(logs);
    }

    /// Collects output until `enough` is true, for at most `patience`.
    pub(super) async fn listen(
        &mut self,
        logs: &mut Logs,
        patience: Duration,
        enough: impl Fn(&Logs) -> bool,
    ) {
        let give_up = tokio::time::sleep_until((Instant::now() + patience).min(self.timer.deadline()).into());
        let mut give_up = std::pin::pin!(give_up);
        poll_fn(|cx| {
            self.output.poll(cx, logs);
            if enough(logs) || self.output.ended() { Poll::Ready(()) } else { give_up.as_mut().poll(cx) }
        })
        .await;
    }

    /// Why the connection broke: the cause may be a caller that broke off its request.
    fn broken(&self, error: &hyper::Error) -> Broken {
        match self.upload.as_ref().and_then(Upload::error) {
            Some(error) => Broken::Caller(error),
            None if error.is_parse_too_large() => Broken::Head,
            None => Broken::Connection(cause(error)),
        }
    }

    /// The fault of a failed exchange. Unless it is the caller's, the instance is unusable afterwards.
    pub(super) async fn fault(&mut self, broken: Broken, logs: &mut Logs) -> Fault {
        match broken {
            Broken::Caller(error) => {
                // Nothing more of the request will come.
                self.hang_up();
                Fault::Request(error)
            }
            Broken::Deadline => {
                ending::by_force(&self.sandbox, &mut self.output, logs).await;
                Fault::Deadline
            }
            Broken::Head => {
                ending::by_force(&self.sandbox, &mut self.output, logs).await;
                let most = ByteSize::bytes(LONGEST_HEAD as u64);
                Fault::Developer {
                    message: format!(
                        "the function's server answered with a head that is too large: status and headers may have {most}, and there may be {MOST_HEADERS} headers"
                    ),
                }
            }
            Broken::Connection(reason) => {
                let patience = LEAVING.min(self.timer.deadline().saturating_duration_since(Instant::now()));
                match ending::of_itself_within(patience, &self.sandbox, &mut self.output, logs).await {
                    Fault::Exited { end: None } => Fault::Developer {
                        message: format!("the function's server broke off without an answer: {reason}"),
                    },
                    other => other,
                }
            }
        }
    }
}

/// `None` while nothing listens yet.
fn not_open(error: flint_sandbox::Error) -> Option<String> {
    match error {
        flint_sandbox::Error::Operation { source, .. }
            if source.kind() == io::ErrorKind::ConnectionRefused =>
        {
            None
        }
        other => Some(other.to_string()),
    }
}

fn refused(error: io::Error) -> Option<String> {
    (error.kind() != io::ErrorKind::ConnectionRefused).then(|| error.to_string())
}

/// hyper's message names the operation, its sources the reason.
fn cause(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(deeper) = next {
        text = format!("{text}: {deeper}");
        next = deeper.source();
    }
    text
}
