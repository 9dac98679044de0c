//! The state of a server between calls, and the attribution of its output to them.

use std::time::{Duration, Instant};

use flint_runtimes::process::logs::Logs;

use super::exchange::Line;

/// How long to wait for output after an answer, from a server that is expected to write some.
const TRAILING: Duration = Duration::from_millis(5);

/// A server and the state that outlives a call.
pub(super) struct State {
    pub(super) line: Line,
    /// Whether this proxy ends an activation's output with sentinel lines; `None` until that is known.
    pub(super) sentinels: Option<bool>,
    /// Whether a call has been made.
    called: bool,
    /// Whether this server is expected to write output after its answer, as one does that keeps an access
    /// log.
    trails: bool,
}

impl State {
    /// A server before its first call.
    pub(super) fn new(line: Line) -> Self {
        Self { line, sentinels: None, called: false, trails: true }
    }

    /// Prepares for a call. Output since the previous call belongs to none and is discarded; output since the
    /// start belongs to the first call, like the rest of the start's output.
    pub(super) fn begin(&mut self, deadline: Instant) {
        self.line.timer.set(deadline);
        if std::mem::replace(&mut self.called, true) {
            self.trails |= self.line.forget_idle_output();
        }
    }

    /// Collects the output of a call, waiting for a late line if this server is expected to write one.
    pub(super) async fn catch_up(&mut self, logs: &mut Logs) {
        self.line.drain(logs);
        if self.trails && self.sentinels != Some(true) {
            let so_far = logs.came();
            self.line.listen(logs, TRAILING, |logs| logs.came() > so_far).await;
            self.trails = logs.came() > so_far;
        }
    }
}
