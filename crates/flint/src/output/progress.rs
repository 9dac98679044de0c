//! What a long step is doing.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::terminal::harmless;

/// A line on stderr that says what is being done; it appears after a second and only on a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Begins with `what`.
    pub(crate) fn start(what: impl Into<String>) -> Self {
        let what: String = what.into();
        let bar = ProgressBar::no_length().with_message(harmless(&what).into_owned());
        // The template is constant; were it wrong, the default style would do.
        let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(250));
        Self { bar }
    }

    /// Goes on with `what`.
    pub(crate) fn step(&self, what: impl Into<String>) {
        let what: String = what.into();
        self.bar.set_message(harmless(&what).into_owned());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
