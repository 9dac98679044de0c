//! The socket to one launcher process: sends requests, and passes each event to the task that waits for it.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{oneshot, watch};

use crate::announcements::{self, Announcer};
use crate::error::{Error, Fault, Result};
use crate::launcher::ARGUMENT;
use crate::outcome::{Exit, ExitStatus, Usage};
use crate::sandbox::Sandbox;
use crate::spec::LauncherConfig;
use crate::wire::{self, ASIDE_MAX, Ask, Descriptors, Event, Lost, MESSAGE_MAX, Request, Told};

/// This process's name in messages.
const SERVER: &str = "the server";

/// How long a launcher may take to start.
const GREETING_DEADLINE: Duration = Duration::from_secs(20);
/// How long it may take to end before it is killed.
const FAREWELL_DEADLINE: Duration = Duration::from_secs(20);

/// One launcher process and the socket to it.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: AsyncFd<OwnedFd>,
    announcer: Announcer,
    numbers: AtomicU64,
    gone: AtomicBool,
    /// Whether any sandbox was ever asked to freeze.
    freezes: AtomicBool,
    pending: Mutex<Pending>,
    /// Locked while its exit is waited for, so that a second caller waits too.
    child: tokio::sync::Mutex<Option<Child>>,
    pid: u32,
    /// Its sender is dropped when the reader task has seen the end of the stream.
    over: watch::Receiver<()>,
}

/// The callers that wait for an event, by its number.
#[derive(Debug, Default)]
struct Pending {
    starts: HashMap<u64, Start>,
    exits: HashMap<u64, watch::Sender<Option<Exit>>>,
    asks: HashMap<u64, oneshot::Sender<Answer>>,
    /// Requests that did not fit into the socket's buffer.
    unsaid: VecDeque<Vec<u8>>,
}

/// What the launcher answers to an [`Ask`].
type Answer = Result<(Told, Option<OwnedFd>), Fault>;

#[derive(Debug)]
struct Start {
    id: String,
    reply: oneshot::Sender<Result<Begun>>,
}

/// A request whose answer somebody waits for and which has not been sent. If it never is, no answer comes, so
/// dropping it removes it from the table.
struct Unsent<'a> {
    connection: &'a Connection,
    /// The number of a sandbox or of a question; the two never overlap.
    number: u64,
    sent: bool,
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        if !self.sent {
            let mut pending = self.connection.pending();
            pending.starts.remove(&self.number);
            pending.asks.remove(&self.number);
        }
    }
}

impl Unsent<'_> {
    /// Sends the request. If the future is dropped before it is done, nothing was sent.
    async fn send(mut self, request: &Request<'_>, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        // `on_end` has already answered every entry of the table; one that was added later would wait for
        // ever.
        if self.connection.is_gone() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.connection.send(request, fds).await?;
        self.sent = true;
        Ok(())
    }
}

/// A running sandbox, and the listening socket inside it where one was asked for.
pub(crate) type Begun = (Sandbox, Option<OwnedFd>);

impl Connection {
    /// Starts a launcher and greets it.
    pub(crate) async fn open(config: &LauncherConfig) -> Result<Arc<Self>> {
        let at =
            |step: &'static str| move |source: io::Error| Error::LauncherStart { step: step.into(), source };
        let (ours, theirs) = wire::pair().map_err(at("make a socket"))?;
        rustix::io::ioctl_fionbio(&ours, true)
            .map_err(|error| at("make a socket non-blocking")(error.into()))?;
        let exe = config.exe.clone().unwrap_or_else(|| "/proc/self/exe".into());
        let child = Command::new(&exe)
            .arg(ARGUMENT)
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .map_err(|source| Error::LauncherStart { step: format!("execute {}", exe.display()), source })?;
        // SAFETY: the `AsyncFd` owns the descriptor from here on and never replaces it.
        let socket =
            unsafe { AsyncFd::register_with_interest(ours, Interest::READABLE | Interest::WRITABLE) }
                .map_err(|error| at("watch the socket")(error.into()))?;
        let (announcer, announcements) = announcements::pair().map_err(at("make a socket"))?;
        let (alive, over) = watch::channel(());
        let connection = Arc::new(Self {
            socket,
            announcer,
            numbers: AtomicU64::new(1),
            gone: AtomicBool::new(false),
            freezes: AtomicBool::new(false),
            pending: Mutex::default(),
            pid: child.id(),
            child: tokio::sync::Mutex::new(Some(child)),
            over,
        });
        let hello = Request::Hello { config: Cow::Borrowed(config), server_pid: std::process::id() };
        connection.send(&hello, &[announcements.as_fd()]).await.map_err(at("greet the launcher"))?;
        let mut buffer = vec![0; MESSAGE_MAX];
        let greeting = tokio::time::timeout(GREETING_DEADLINE, connection.receive(&mut buffer)).await;
        let failure = match greeting {
            Ok(Ok(Some((Event::Up, _)))) => None,
            Ok(Ok(Some((Event::Down { fault }, _)))) => Some(match fault.setup("") {
                Error::Setup { step, source, .. } => Error::LauncherStart { step, source },
                other => at("set up")(io::Error::other(other.to_string())),
            }),
            Ok(Ok(_)) => Some(at(
                "await its greeting (does this program call flint_sandbox::launcher_entry() first?)",
            )(io::ErrorKind::UnexpectedEof.into())),
            Ok(Err(error)) => Some(at("await its greeting")(error)),
            Err(_) => Some(at("await its greeting")(io::ErrorKind::TimedOut.into())),
        };
        if let Some(error) = failure {
            connection.gone.store(true, Ordering::Release);
            connection.reap(true).await;
            return Err(error);
        }
        tokio::spawn(read_events(connection.clone(), alive));
        Ok(connection)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// A number for a sandbox or a question; never reused.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Announces the fork for a cell.
    pub(crate) async fn announce(&self, sid: u64) -> io::Result<()> {
        self.announcer.announce(sid).await
    }

    /// Sends a request, waiting while the socket's buffer is full.
    pub(crate) async fn send(&self, request: &Request<'_>, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = serde_json::to_vec(request)?;
        if bytes.len() <= MESSAGE_MAX {
            return self.send_bytes(&bytes, fds).await;
        }
        let Request::Start { sid, .. } = request else {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        };
        if bytes.len() > ASIDE_MAX {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        let aside = wire::lay_aside(&bytes)?;
        let fds: Vec<_> = std::iter::once(aside.as_fd()).chain(fds.iter().copied()).collect();
        let request = Request::StartAside { sid: *sid, length: bytes.len() };
        self.send_bytes(&serde_json::to_vec(&request)?, &fds).await
    }

    async fn send_bytes(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.socket.async_io(Interest::WRITABLE, |socket| wire::send_bytes(socket.as_fd(), bytes, fds)).await
    }

    async fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<(Event, Descriptors)>> {
        self.socket.async_io(Interest::READABLE, |socket| wire::receive(socket.as_fd(), buffer)).await
    }

    /// Sends the request that starts the sandbox `sid`; the receiver yields the sandbox when its program
    /// runs.
    pub(crate) async fn begin(
        &self,
        sid: u64,
        id: &str,
        request: &Request<'_>,
        fds: &[BorrowedFd<'_>],
    ) -> Result<oneshot::Receiver<Result<Begun>>> {
        let (reply, started) = oneshot::channel();
        self.pending().starts.insert(sid, Start { id: id.to_owned(), reply });
        match self.unsent(sid).send(request, fds).await {
            Ok(()) => Ok(started),
            Err(error) => Err(match error.raw_os_error() {
                Some(libc::E2BIG) => {
                    let what = format!("the request has more than {ASIDE_MAX} bytes; shorten its mounts");
                    Error::InvalidSpec { id: id.to_owned(), what }
                }
                Some(libc::EMFILE | libc::ENFILE) => Fault::out_of_descriptors(SERVER).setup(id),
                _ => Error::LauncherGone,
            }),
        }
    }

    fn unsent(&self, number: u64) -> Unsent<'_> {
        Unsent { connection: self, number, sent: false }
    }

    /// Asks a question about a running sandbox.
    pub(crate) async fn ask(&self, id: &str, sid: u64, ask: Ask) -> Result<(Told, Option<OwnedFd>)> {
        if matches!(ask, Ask::Freeze) {
            self.freezes.store(true, Ordering::Relaxed);
        }
        let seq = self.next_number();
        let (reply, answer) = oneshot::channel();
        self.pending().asks.insert(seq, reply);
        let sent = self.unsent(seq).send(&Request::Ask { seq, sid, ask }, &[]).await;
        sent.map_err(|_| Error::LauncherGone)?;
        match answer.await {
            Ok(answer) => answer.map_err(|fault| fault.operation(id)),
            Err(_) => Err(Error::LauncherGone),
        }
    }

    /// Thaws a sandbox that may be frozen, so that it dies of the SIGKILL it was sent. Does not wait and
    /// needs no answer.
    pub(crate) fn thaw_to_die(&self, sid: u64) {
        if self.freezes.load(Ordering::Relaxed) {
            self.say(&Request::Ask { seq: 0, sid, ask: Ask::Thaw });
        }
    }

    /// Sends a request without waiting. If the socket's buffer is full, it is sent when the launcher's next
    /// event arrives.
    pub(crate) fn say(&self, request: &Request<'_>) {
        if let Ok(bytes) = serde_json::to_vec(request) {
            self.pending().unsaid.push_back(bytes);
            self.say_unsaid();
        }
    }

    fn say_unsaid(&self) {
        let mut pending = self.pending();
        while let Some(bytes) = pending.unsaid.front() {
            match wire::send_bytes(self.socket.as_fd(), bytes, &[]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                _ => pending.unsaid.pop_front(),
            };
        }
    }

    /// Shuts the socket down, on which the launcher ends. Does not wait.
    pub(crate) fn hang_up(&self) {
        let _ = rustix::net::shutdown(self.socket.as_fd(), rustix::net::Shutdown::Both);
    }

    /// Ends the launcher and waits until it has cleaned up.
    pub(crate) async fn close(&self) {
        if !self.is_gone() {
            let _ = self.send(&Request::Shutdown, &[]).await;
            let mut over = self.over.clone();
            // Nothing is ever sent; `changed` returns when the sender is dropped.
            let _ = tokio::time::timeout(FAREWELL_DEADLINE, over.changed()).await;
        }
        self.reap(false).await;
    }

    /// Waits for the launcher to exit, and kills it after the deadline.
    async fn reap(&self, kill: bool) {
        let mut place = self.child.lock().await;
        let Some(mut child) = place.take() else { return };
        let wait = move || {
            let deadline = std::time::Instant::now() + FAREWELL_DEADLINE;
            if kill {
                let _ = child.kill();
            }
            while let Ok(None) = child.try_wait() {
                if std::time::Instant::now() > deadline {
                    let _ = child.kill();
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let _ = tokio::task::spawn_blocking(wait).await;
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_event(self: &Arc<Self>, event: Event, fds: Descriptors) {
        self.say_unsaid();
        match event {
            Event::Up | Event::Down { .. } => {}
            Event::Started { sid, setup_us } => {
                let mut fds = match fds {
                    Ok(fds) => fds.into_iter(),
                    Err(Lost) => return self.give_up(sid),
                };
                let (told, exit) = watch::channel(None);
                let Some(start) = self.take_start(sid, Some(told)) else { return };
                let Some(pidfd) = fds.next() else { return };
                let sandbox = Sandbox::new(start.id, sid, setup_us, pidfd, exit, self.clone());
                // If the caller has gone, the sandbox is dropped here, which kills it.
                let _ = start.reply.send(Ok((sandbox, fds.next())));
            }
            Event::Failed { sid, fault } => {
                if let Some(start) = self.take_start(sid, None) {
                    let error = fault.setup(&start.id);
                    let _ = start.reply.send(Err(error));
                }
            }
            Event::Exited { sid, exit } => {
                let told = self.pending().exits.remove(&sid);
                if let Some(told) = told {
                    told.send_replace(Some(exit));
                }
            }
            Event::Done { seq, answer } => {
                let reply = self.pending().asks.remove(&seq);
                if let Some(reply) = reply {
                    let _ = reply.send(answer.and_then(|told| match fds {
                        Ok(fds) => Ok((told, fds.into_iter().next())),
                        Err(Lost) => Err(Fault::out_of_descriptors(SERVER)),
                    }));
                }
            }
        }
    }

    /// Ends a sandbox that has started but whose descriptors did not fit into our table. Without its pidfd
    /// only the launcher can.
    fn give_up(&self, sid: u64) {
        self.say(&Request::Kill { sid });
        if let Some(start) = self.take_start(sid, None) {
            let error = Fault::out_of_descriptors(SERVER).setup(&start.id);
            tracing::warn!(%error, "a sandbox was ended again");
            let _ = start.reply.send(Err(error));
        }
    }

    fn take_start(&self, sid: u64, told: Option<watch::Sender<Option<Exit>>>) -> Option<Start> {
        let mut pending = self.pending();
        let start = pending.starts.remove(&sid)?;
        if let Some(told) = told {
            pending.exits.insert(sid, told);
        }
        Some(start)
    }

    /// Answers everybody who still waits.
    fn on_end(&self) {
        self.gone.store(true, Ordering::Release);
        let Pending { starts, exits, asks, unsaid: _ } = std::mem::take(&mut *self.pending());
        for (_, start) in starts {
            let _ = start.reply.send(Err(Error::LauncherGone));
        }
        for (_, told) in exits {
            told.send_replace(Some(Exit::new(ExitStatus::Lost, Usage::default())));
        }
        drop(asks);
    }
}

/// Reads events until the launcher has gone; see [`Connection::close`] and [`Connection::hang_up`].
async fn read_events(connection: Arc<Connection>, alive: watch::Sender<()>) {
    let mut buffer = vec![0; MESSAGE_MAX];
    loop {
        match connection.receive(&mut buffer).await {
            Ok(Some((event, fds))) => connection.on_event(event, fds),
            // A killed launcher leaves unread requests behind, for which the socket reports ECONNRESET
            // instead of end of file.
            Ok(None) => break,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => {
                tracing::error!(%error, "the launcher's message cannot be read; giving it up");
                connection.hang_up();
                break;
            }
        }
    }
    connection.on_end();
    connection.reap(false).await;
    drop(alive);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    /// A connection whose peer never reads and whose buffer is full.
    fn full() -> (Connection, OwnedFd) {
        let (ours, theirs) = wire::pair().unwrap();
        rustix::io::ioctl_fionbio(&ours, true).unwrap();
        while wire::send(ours.as_fd(), &Request::Kill { sid: 0 }, &[]).is_ok() {}
        let connection = Connection {
            // SAFETY: the socket is open, and the `AsyncFd` owns it.
            socket: unsafe { AsyncFd::register(ours) }.unwrap(),
            announcer: announcements::pair().unwrap().0,
            numbers: AtomicU64::new(1),
            gone: AtomicBool::new(false),
            freezes: AtomicBool::new(false),
            pending: Mutex::default(),
            child: tokio::sync::Mutex::default(),
            pid: 0,
            over: watch::channel(()).1,
        };
        (connection, theirs)
    }

    #[tokio::test]
    async fn nothing_is_left_of_requests_that_were_not_sent() {
        let (connection, _theirs) = full();
        let waiting = || {
            let pending = connection.pending();
            (pending.starts.len(), pending.asks.len())
        };
        let admit = Request::Admit { sid: 7, pid: 1 };
        let mut start = Box::pin(connection.begin(7, "a", &admit, &[]));
        let mut ask = Box::pin(connection.ask("a", 7, Ask::Usage));
        poll_fn(|cx| {
            assert!(start.as_mut().poll(cx).is_pending() && ask.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        assert_eq!(waiting(), (1, 1));
        drop((start, ask));
        assert_eq!(waiting(), (0, 0));
        connection.gone.store(true, Ordering::Release);
        let refused = (connection.begin(7, "a", &admit, &[]).await, connection.ask("a", 7, Ask::Usage).await);
        assert!(matches!(refused, (Err(Error::LauncherGone), Err(Error::LauncherGone))));
        assert_eq!(waiting(), (0, 0));
    }
}
