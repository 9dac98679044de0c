//! The numbers of calls and of dead letters per namespace, kept in memory: they are needed at every admission
//! and after every failure.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
};

use flint_model::NamespaceName;
use flint_store::{DeadLetterUsage, StoreError, Waiting};
use rusqlite::Connection;

use super::state;
use crate::fault::{locked, sql_fault};

/// The counts of every namespace that has any.
#[derive(Default)]
pub(crate) struct Tally(Mutex<HashMap<String, Counts>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Calls that are not dead letters.
    live: usize,
    /// Of these, the ones without an attempt that nobody has.
    first: usize,
    again: Waiting,
    dead: DeadLetterUsage,
    unreadable: usize,
}

/// The properties of a call that are counted.
pub(crate) struct Counted {
    pub(crate) namespace: String,
    pub(crate) state: i64,
    pub(crate) size: u64,
}

impl Counts {
    /// Adds or subtracts one call.
    fn change(&mut self, state: i64, calls: usize, size: u64, more: bool) {
        let count = |count: &mut usize| {
            *count = if more { *count + calls } else { count.saturating_sub(calls) };
        };
        let bytes = |bytes: &mut u64| *bytes = if more { *bytes + size } else { bytes.saturating_sub(size) };
        if state == state::UNREADABLE {
            return count(&mut self.unreadable);
        }
        if state == state::DEAD {
            count(&mut self.dead.letters);
            bytes(&mut self.dead.bytes);
            return;
        }
        count(&mut self.live);
        if state == state::DUE {
            count(&mut self.first);
        }
        if state == state::DELAYED || state == state::DUE_AGAIN {
            count(&mut self.again.calls);
            bytes(&mut self.again.bytes);
        }
    }
}

impl Tally {
    /// Recounts: on open, after a transaction was lost, and after calls changed their states in bulk.
    pub(crate) fn recount(&self, connection: &Connection) -> Result<(), StoreError> {
        let fault = sql_fault(connection, "counting the queue");
        let mut counts: HashMap<String, Counts> = HashMap::new();
        let mut statement = connection
            .prepare_cached(
                // The casts and the total take whatever is there: one damaged call must not keep the server from
                // starting.
                "SELECT CAST(namespace AS BLOB), CAST(state AS INTEGER), count(*), CAST(total(size) AS INTEGER)
                 FROM calls GROUP BY 1, 2",
            )
            .map_err(&fault)?;
        let mut rows = statement.query([]).map_err(&fault)?;
        while let Some(row) = rows.next().map_err(&fault)? {
            let read = || -> rusqlite::Result<(Vec<u8>, i64, i64, i64)> {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            };
            let (namespace, state, calls, size) = read().map_err(&fault)?;
            // One whose name cannot be read is counted as well.
            let namespace = String::from_utf8_lossy(&namespace).into_owned();
            counts.entry(namespace).or_default().change(state, calls as usize, size.max(0) as u64, true);
        }
        *self.counts() = counts;
        Ok(())
    }

    /// Counts a new call.
    pub(crate) fn add(&self, call: &Counted) {
        let mut counts = self.counts();
        match counts.get_mut(&call.namespace) {
            Some(of) => of.change(call.state, 1, call.size, true),
            None => counts.entry(call.namespace.clone()).or_default().change(call.state, 1, call.size, true),
        }
    }

    /// Subtracts a removed call.
    pub(crate) fn remove(&self, call: &Counted) {
        let mut counts = self.counts();
        if let Some(of) = counts.get_mut(&call.namespace) {
            of.change(call.state, 1, call.size, false);
            if *of == Counts::default() {
                counts.remove(&call.namespace);
            }
        }
    }

    /// Counts a call's change from the state `from`.
    pub(crate) fn moved(&self, from: i64, call: &Counted) {
        let mut counts = self.counts();
        let of = counts.entry(call.namespace.clone()).or_default();
        of.change(from, 1, call.size, false);
        of.change(call.state, 1, call.size, true);
    }

    /// Removes a namespace's counts.
    pub(crate) fn forget(&self, namespace: &str) {
        self.counts().remove(namespace);
    }

    pub(super) fn depth(&self, namespace: Option<&NamespaceName>) -> usize {
        self.of(namespace, |counts| counts.live).into_iter().sum()
    }

    /// Calls put aside, of all namespaces.
    pub(super) fn unreadable(&self) -> usize {
        self.of(None, |counts| counts.unreadable).into_iter().sum()
    }

    pub(super) fn waiting_first(&self, namespace: Option<&NamespaceName>) -> usize {
        self.of(namespace, |counts| counts.first).into_iter().sum()
    }

    pub(super) fn waiting_again(&self, namespace: Option<&NamespaceName>) -> Waiting {
        let all = self.of(namespace, |counts| counts.again);
        let sum =
            |sum: Waiting, of: Waiting| Waiting { calls: sum.calls + of.calls, bytes: sum.bytes + of.bytes };
        all.into_iter().fold(Waiting::default(), sum)
    }

    pub(crate) fn dead(&self, namespace: Option<&NamespaceName>) -> DeadLetterUsage {
        let all = self.of(namespace, |counts| counts.dead);
        let sum = |sum: DeadLetterUsage, of: DeadLetterUsage| DeadLetterUsage {
            letters: sum.letters + of.letters,
            bytes: sum.bytes + of.bytes,
        };
        all.into_iter().fold(DeadLetterUsage::default(), sum)
    }

    /// Dead letters of the namespace of that name.
    pub(crate) fn dead_of(&self, namespace: &str) -> DeadLetterUsage {
        self.counts().get(namespace).map(|counts| counts.dead).unwrap_or_default()
    }

    fn of<T>(&self, namespace: Option<&NamespaceName>, what: impl Fn(&Counts) -> T) -> Vec<T> {
        let counts = self.counts();
        match namespace {
            Some(namespace) => counts.get(namespace.as_str()).map(what).into_iter().collect(),
            None => counts.values().map(what).collect(),
        }
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<String, Counts>> {
        locked(&self.0)
    }
}
