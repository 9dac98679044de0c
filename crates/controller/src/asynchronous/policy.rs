//! Retry policies: whether and when a call is attempted again.

use std::time::Duration;

use flint_model::{
    Annotations, DeadLetterReason, FailureKind, FailureKinds, RetryOptions, RetryPolicy, Status, Timestamp,
};
use flint_store::QueuedCall;

use crate::{
    AsyncConfig,
    resolve::{Callee, Resolved},
};

/// The retry annotations. Invalid ones were refused when they were written.
pub(crate) fn options(annotations: &Annotations) -> Option<RetryOptions> {
    RetryOptions::of_annotation(annotations.get(RetryOptions::ANNOTATION)?).ok().flatten()
}

/// The policy of a non-blocking call of an action.
pub(crate) fn policy(action: &Resolved, config: &AsyncConfig) -> RetryPolicy {
    let default = config.policy();
    let own = match &action.callee {
        Callee::Function(callable) => callable.retry.clone(),
        Callee::Sequence(sequence) => options(&sequence.annotations),
    };
    match own {
        Some(own) => own.over(&default),
        None if action.is_composition() => of_composition(config),
        None => default,
    }
}

/// The policy of a composition without annotations. Its steps are retried one by one when the platform fails;
/// the whole is not.
pub(crate) fn of_composition(config: &AsyncConfig) -> RetryPolicy {
    RetryPolicy { on: FailureKinds::NONE, ..config.policy() }
}

/// The policy of a blocking call whose caller was answered with 202: its only attempt is under way.
pub(crate) fn of_outlived() -> RetryPolicy {
    RetryPolicy { max_attempts: 1, on: FailureKinds::NONE, ..RetryPolicy::default() }
}

/// How an attempt with this end has failed; `None` if it succeeded.
pub(super) fn failure(status: Status, timed_out: bool) -> Option<FailureKind> {
    match status {
        Status::Success => None,
        Status::ApplicationError => Some(FailureKind::Application),
        Status::DeveloperError if timed_out => Some(FailureKind::Timeout),
        Status::DeveloperError => Some(FailureKind::Developer),
        Status::InternalError => Some(FailureKind::Platform),
    }
}

/// What follows a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Another attempt, after this delay.
    Again(Duration),
    /// No further attempt.
    Dead(DeadLetterReason),
}

/// What follows the failure of the `attempt`th attempt (from 1).
pub(super) fn next(call: &QueuedCall, attempt: u32, now: Timestamp) -> Next {
    if attempt >= call.policy.max_attempts {
        return Next::Dead(DeadLetterReason::AttemptsUsed);
    }
    let delay = call.policy.delay(call.activation, attempt);
    match is_too_old(call, now, delay) {
        true => Next::Dead(DeadLetterReason::TooOld),
        false => Next::Again(delay),
    }
}

/// When an attempt may begin at the latest, if there is such a time.
pub(super) fn latest(call: &QueuedCall) -> Option<Timestamp> {
    let most = call.policy.max_age?.as_millis() as u64;
    Some(Timestamp::from_millis(call.accepted.as_millis().saturating_add(most)))
}

/// Whether an attempt that begins `delay` from now would be too late.
pub(super) fn is_too_old(call: &QueuedCall, now: Timestamp, delay: Duration) -> bool {
    let begins = Timestamp::from_millis(now.as_millis().saturating_add(delay.as_millis() as u64));
    latest(call).is_some_and(|latest| begins > latest)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use flint_model::ActivationId;
    use proptest::prelude::*;

    use super::*;

    fn call(policy: RetryPolicy) -> QueuedCall {
        QueuedCall {
            activation: ActivationId::generate(),
            namespace: "guest".parse().unwrap(),
            subject: "guest".to_owned(),
            path: "guest/f".parse().unwrap(),
            arguments: Bytes::new(),
            transaction: "t".to_owned(),
            accepted: Timestamp::from_millis(1_000_000),
            policy,
            cause: None,
            promised: false,
        }
    }

    proptest! {
        /// For any policy: a call whose attempts all fail, each begun as late as allowed, is never attempted
        /// more often than its policy says, never begun when too old, and comes to an end.
        #[test]
        fn attempts_end(
            max_attempts in 1..40_u32, backoff in 1..100_000_u64, ceiling in 1..1_000_000_u64,
            max_age in proptest::option::of(1..10_000_000_u64), took in 0..50_000_u64,
        ) {
            let policy = RetryPolicy {
                max_attempts,
                backoff: Duration::from_millis(backoff),
                max_backoff: Duration::from_millis(ceiling),
                max_age: max_age.map(Duration::from_millis),
                on: FailureKinds::NO_ANSWER,
            };
            let call = call(policy.clone());
            let (mut now, mut attempt) = (call.accepted.as_millis(), 1);
            let reason = loop {
                now += took;
                match next(&call, attempt, Timestamp::from_millis(now)) {
                    Next::Dead(reason) => break reason,
                    Next::Again(delay) => {
                        now += delay.as_millis() as u64;
                        attempt += 1;
                        prop_assert!(max_age.is_none_or(|most| now - call.accepted.as_millis() <= most));
                        prop_assert!(!is_too_old(&call, Timestamp::from_millis(now), Duration::ZERO));
                    }
                }
            };
            prop_assert!(attempt <= max_attempts);
            prop_assert_eq!(reason == DeadLetterReason::AttemptsUsed, attempt == max_attempts);
        }
    }

    #[test]
    fn what_ended_an_attempt_has_a_word() {
        for (status, timed_out, kind) in [
            (Status::Success, false, None),
            (Status::ApplicationError, false, Some(FailureKind::Application)),
            (Status::DeveloperError, false, Some(FailureKind::Developer)),
            (Status::DeveloperError, true, Some(FailureKind::Timeout)),
            (Status::InternalError, false, Some(FailureKind::Platform)),
        ] {
            assert_eq!(failure(status, timed_out), kind);
        }
    }
}
