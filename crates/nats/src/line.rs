//! What a connection's events tell: messages that were lost, that the server refuses its subscription, and that
//! it has ended. The client would connect again by itself, as often as it succeeds; here a connection is used once.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_nats::{Event, ServerError};
use tokio::sync::watch;

/// How the server begins when it refuses a subscription; what is subscribed to follows in quotation marks.
const REFUSES: &str = "permissions violation for subscription to ";
/// How it begins when it refuses anything that was asked for, and goes on.
const REFUSES_ANYTHING: &str = "permissions violation";
/// How many characters are kept of what it says.
const KEPT: usize = 1000;

/// The state of a connection.
#[derive(Clone)]
pub(crate) struct Line {
    /// The plain subject that is subscribed to.
    subject: Option<Arc<str>>,
    missed: Arc<AtomicU64>,
    told: Arc<watch::Sender<Told>>,
}

#[derive(Default)]
struct Told {
    /// What the server said last of what was wrong.
    last: Option<String>,
    ended: Option<String>,
}

impl Line {
    pub(crate) fn new(subject: Option<&str>) -> Self {
        let told = Arc::new(watch::Sender::new(Told::default()));
        Self { subject: subject.map(Into::into), missed: Arc::default(), told }
    }

    /// Takes note of an event.
    pub(crate) fn tell(&self, event: Event) {
        match event {
            Event::SlowConsumer(_) => self.miss(),
            Event::ServerError(ServerError::Other(text)) if self.is_refused(&text) => {
                self.end(|_| beginning(&text));
            }
            Event::ServerError(ServerError::Other(text))
                if text.to_lowercase().starts_with(REFUSES_ANYTHING) => {}
            Event::ServerError(error) => {
                self.told.send_modify(|told| told.last = Some(beginning(&error.to_string())));
            }
            Event::Disconnected | Event::Closed => {
                self.end(|last| last.unwrap_or_else(|| "the server cannot be reached any more".to_owned()))
            }
            _ => {}
        }
    }

    /// Whether this is what the server says when the subscription is refused.
    fn is_refused(&self, text: &str) -> bool {
        let Some(subject) = &self.subject else { return false };
        let (begins, rest) = text.split_at_checked(REFUSES.len()).unwrap_or_default();
        begins.eq_ignore_ascii_case(REFUSES)
            && rest
                .strip_prefix('"')
                .and_then(|rest| rest.strip_prefix(&**subject))
                .is_some_and(|rest| rest.starts_with('"'))
    }

    fn end(&self, why: impl FnOnce(Option<String>) -> String) {
        self.told.send_modify(|told| {
            // What ended it first is why.
            if told.ended.is_none() {
                told.ended = Some(why(told.last.take()));
            }
        });
    }

    /// A message was lost.
    pub(crate) fn miss(&self) {
        self.missed.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of messages that were lost.
    pub(crate) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Waits until the connection has ended, and says why.
    pub(crate) async fn ended(&self) -> String {
        let mut told = self.told.subscribe();
        let ended = told.wait_for(|told| told.ended.is_some()).await;
        ended.ok().and_then(|told| told.ended.clone()).unwrap_or_default()
    }
}

fn beginning(text: &str) -> String {
    text.chars().take(KEPT).collect()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn says(text: &str) -> Event {
        Event::ServerError(ServerError::Other(text.to_owned()))
    }

    #[test]
    fn a_refused_subscription_ends_it_and_other_refusals_do_not() {
        for (text, ends) in [
            (r#"Permissions Violation for Subscription to "orders.new""#, true),
            (r#"permissions violation for subscription to "orders.new" using queue "g""#, true),
            (r#"Permissions Violation for Subscription to "orders.newer""#, false),
            (r#"Permissions Violation for Subscription to "_INBOX.x""#, false),
            (r#"Permissions Violation for Publish to "orders.new""#, false),
            ("Permissions Violation for Subscription to ", false),
            ("é", false),
        ] {
            let line = Line::new(Some("orders.new"));
            line.tell(says(text));
            assert_eq!(line.ended().now_or_never(), ends.then(|| text.to_owned()), "{text}");
            Line::new(None).tell(says(text));
        }
    }

    #[test]
    fn what_the_server_said_before_it_went_is_why_it_went() {
        let line = Line::new(None);
        line.tell(says("Permissions Violation for Publish to \"s\""));
        line.tell(Event::SlowConsumer(1));
        assert_eq!((line.ended().now_or_never(), line.missed()), (None, 1));
        line.tell(says("User Authentication Expired"));
        line.tell(Event::Disconnected);
        line.tell(Event::Closed);
        assert_eq!(line.ended().now_or_never().unwrap(), "nats: User Authentication Expired");
        let silent = Line::new(None);
        silent.tell(Event::Disconnected);
        assert!(silent.ended().now_or_never().unwrap().contains("cannot be reached"));
    }
}
