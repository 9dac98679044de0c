//! What is known of a server from call to call, and whose its output is.

use std::time::{Duration, Instant};

use flint_runtimes::process::logs::Logs;

use super::exchange::Line;

/// How long what follows an answer is waited for, of a server that is taken to write something then.
const TRAILING: Duration = Duration::from_millis(5);

/// A server between its calls, or in one.
pub(super) struct State {
    pub(super) line: Line,
    /// Whether this proxy ends an activation's output with sentinel lines, once that is known.
    pub(super) sentinels: Option<bool>,
    /// A call has been made.
    called: bool,
    /// Whether this server is taken to write after it has answered, as it does that keeps an access log.
    trails: bool,
}

impl State {
    /// Of a server that takes its first call.
    pub(super) fn new(line: Line) -> Self {
        Self { line, sentinels: None, called: false, trails: true }
    }

    /// Before a call: what the server has written since the one before belongs to none. What it wrote since its start is the first one's, as the start's
    /// other output is.
    pub(super) fn begin(&mut self, deadline: Instant) {
        self.line.timer.set(deadline);
        if std::mem::replace(&mut self.called, true) {
            self.trails |= self.line.forget_idle_output();
        }
    }

    /// After a call: what the server has written by now, and what it is about to if it does such things.
    pub(super) async fn catch_up(&mut self, logs: &mut Logs) {
        self.line.drain(logs);
        if self.trails && self.sentinels != Some(true) {
            let so_far = logs.came();
            self.line.listen(logs, TRAILING, |logs| logs.came() > so_far).await;
            self.trails = logs.came() > so_far;
        }
    }
}
