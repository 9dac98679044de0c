//! Progress of long steps.

use std::{
    env,
    io::IsTerminal as _,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::terminal::harmless;

/// Steps shorter than this show nothing.
const AFTER: Duration = Duration::from_secs(1);

/// Whether a step uses the line: two would overwrite each other.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// A line on stderr that says what is being done; it appears after a second, on capable terminals only. A
/// nested step has none.
pub(crate) struct Progress {
    line: Option<Line>,
}

struct Line {
    bar: ProgressBar,
    /// Shows the bar, unless `over` is dropped before.
    shows: JoinHandle<()>,
    over: mpsc::Sender<()>,
}

impl Progress {
    /// Begins with `what`.
    pub(crate) fn start(what: impl Into<String>) -> Self {
        if !is_capable() || TAKEN.swap(true, Ordering::SeqCst) {
            return Self { line: None };
        }
        let what: String = what.into();
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())
            .with_message(harmless(&what).into_owned());
        // The template is constant; the default style would do if it were wrong.
        let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        bar.set_style(style);
        let (over, is_over) = mpsc::channel();
        let shown = bar.clone();
        let shows = thread::Builder::new().spawn(move || {
            if is_over.recv_timeout(AFTER) == Err(RecvTimeoutError::Timeout) {
                shown.set_draw_target(ProgressDrawTarget::stderr());
                shown.enable_steady_tick(Duration::from_millis(250));
            }
        });
        match shows {
            Ok(shows) => Self { line: Some(Line { bar, shows, over }) },
            // The step itself can do without a thread.
            Err(_) => {
                TAKEN.store(false, Ordering::SeqCst);
                Self { line: None }
            }
        }
    }

    /// Goes on with `what`.
    pub(crate) fn step(&self, what: impl Into<String>) {
        if let Some(line) = &self.line {
            let what: String = what.into();
            line.bar.set_message(harmless(&what).into_owned());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(Line { bar, shows, over }) = self.line.take() {
            drop(over);
            // It ends now, or has ended.
            let _ = shows.join();
            bar.finish_and_clear();
            TAKEN.store(false, Ordering::SeqCst);
        }
    }
}

/// Whether stderr is a terminal that can overwrite a line.
fn is_capable() -> bool {
    std::io::stderr().is_terminal() && env::var_os("TERM").is_some_and(|term| term != "dumb")
}
