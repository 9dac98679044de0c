//! Recent build failures: a repeated deploy gets the same answer without the work.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How long a failure is remembered. Not longer, since its cause may have been a busy host.
const KEPT: Duration = Duration::from_secs(60);
/// Most failures remembered; each is as long as the compiler's output.
const MOST: usize = 128;

/// Reasons of failures, by the address of the product.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<HashMap<String, Failure>>);

#[derive(Debug)]
struct Failure {
    at: Instant,
    why: String,
}

impl Failures {
    pub(crate) fn note(&self, address: &str, why: &str, now: Instant) {
        let mut failures = self.failures();
        failures.retain(|_, failure| now.duration_since(failure.at) < KEPT);
        if failures.len() >= MOST
            && let Some(oldest) = failures.iter().min_by_key(|(_, failure)| failure.at)
        {
            let oldest = oldest.0.clone();
            failures.remove(&oldest);
        }
        failures.insert(address.to_owned(), Failure { at: now, why: why.to_owned() });
    }

    /// The reason of a recent failure, with a note that the build was not repeated.
    pub(crate) fn recall(&self, address: &str, now: Instant) -> Option<String> {
        let failures = self.failures();
        let Failure { at, why } = failures.get(address)?;
        let ago = now.duration_since(*at);
        (ago < KEPT).then(|| {
            format!(
                "{why}\nThe same code failed {} s ago, and was not built again. It will be after {} s.",
                ago.as_secs(),
                (KEPT - ago).as_secs() + 1
            )
        })
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<String, Failure>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_known_for_a_while() {
        let (failures, now) = (Failures::default(), Instant::now());
        failures.note("a", "no such name", now);
        let said = failures.recall("a", now + Duration::from_secs(12)).unwrap();
        assert!(said.starts_with("no such name\n") && said.contains("12 s ago"), "{said}");
        assert_eq!(failures.recall("b", now), None);
        assert_eq!(failures.recall("a", now + KEPT), None);
    }

    #[test]
    fn of_many_the_latest_are_known() {
        let (failures, now) = (Failures::default(), Instant::now());
        for n in 0..MOST + 5 {
            failures.note(&n.to_string(), "no", now + Duration::from_millis(n as u64));
        }
        let later = now + Duration::from_secs(1);
        assert_eq!(failures.failures().len(), MOST);
        assert!(failures.recall("4", later).is_none() && failures.recall("5", later).is_some());
    }
}
