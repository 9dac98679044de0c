//! Puts off calls that this host cannot run at present: nothing of them was tried, and no attempt is counted.

use std::time::Duration;

use flint_model::Timestamp;
use flint_store::QueuedCall;

use super::{policy, state::Held};
use crate::{Controller, outcome::Verdict};

/// Shortest and longest delay. After a restart that mends the host, its calls run within the longest.
const DELAY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Calls are put off while fewer wait than this part of those that may, the half: the rest is for retries of
/// functions that this host can run.
const PART: u32 = 2;

/// How much is kept of why a call is put off, in bytes; the log has all of it.
const KEPT: usize = 500;

/// For how long a call is put off, and why.
pub(crate) struct PutOff {
    delay: Duration,
    why: String,
}

impl PutOff {
    fn new(delay: Duration, why: &str) -> Self {
        let kept = &why[..why.floor_char_boundary(KEPT)];
        let cut = if kept.len() < why.len() { "…" } else { "" };
        Self { delay, why: format!("{kept}{cut}") }
    }
}

/// A quarter of the call's age; `None` if it is not to wait that long any more, or is older than `most`.
fn delay(call: &QueuedCall, most: Duration, now: Timestamp) -> Option<Duration> {
    let age = Duration::from_millis(now.as_millis().saturating_sub(call.accepted.as_millis()));
    let delay = (age / 4).clamp(DELAY.0, DELAY.1);
    (age < most && !policy::is_too_old(call, now, delay)).then_some(delay)
}

impl Controller {
    /// How a call with this verdict is put off; `None` if it was tried, has waited for as long as it may, or too
    /// many wait: then the verdict counts.
    pub(crate) async fn puts_off(&self, call: &QueuedCall, verdict: &Verdict) -> Option<PutOff> {
        let why = verdict.untried.as_deref()?;
        let delay = delay(call, self.config.asynchronous.put_off_for, self.stores.clock.now())?;
        // It holds no place of its namespace, so that nothing else bounds how many come.
        if self.too_many_wait(call, PART).await {
            return None;
        }
        tracing::warn!(activation = %call.activation, why, ?delay, "a call cannot be run here now, and is put off");
        Some(PutOff::new(delay, why))
    }

    /// Leaves a call to the durable queue for a while.
    pub(super) async fn put_off(&self, held: Held, PutOff { delay, why }: PutOff) {
        let id = held.call.activation;
        self.metrics.async_put_off();
        let released = self.let_go(held);
        match self.stores.queue.put_off(released.lease, delay, &why).await {
            Ok(true) => self.let_wait(released),
            // Its lease has expired meanwhile.
            Ok(false) => self.left_to_queue(released),
            // Its lease expires, and the call comes back then.
            Err(error) => {
                tracing::error!(activation = %id, %error, "a call could not be put off");
                self.left_to_queue(released);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use flint_model::RetryPolicy;
    use flint_store::conformance::sample;

    use super::*;

    #[test]
    fn a_call_is_put_off_ever_longer_and_not_for_ever() {
        let most = Duration::from_secs(86_400);
        let within = |max_age: Option<Duration>| QueuedCall {
            policy: RetryPolicy { max_age, ..RetryPolicy::default() },
            ..sample::call("guest", 1_000_000, 1)
        };
        let after = |call: &QueuedCall, age: u64| {
            let now = Timestamp::from_millis(call.accepted.as_millis() + age);
            delay(call, most, now).map(|delay| delay.as_millis())
        };
        let (call, hasty) = (within(None), within(Some(Duration::from_secs(10))));
        for (age, expected) in
            [(0, Some(1_000)), (8_000, Some(2_000)), (3_600_000, Some(60_000)), (86_400_000, None)]
        {
            assert_eq!(after(&call, age), expected, "{age}");
        }
        assert_eq!((after(&hasty, 8_000), after(&hasty, 8_004)), (Some(2_000), None));
        assert_eq!(delay(&call, Duration::ZERO, call.accepted), None, "not at all");
    }

    #[test]
    fn of_a_long_reason_the_beginning_is_kept() {
        let why = |text: &str| PutOff::new(Duration::ZERO, text).why;
        assert_eq!(why("no node was found"), "no node was found");
        let long = why(&"ä".repeat(1000));
        assert_eq!((long.chars().count(), long.ends_with("ä…")), (KEPT / 2 + 1, true));
    }
}
