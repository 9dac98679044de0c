//! Assigns threads to engines.

use std::{
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering},
};

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LANE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// A number for each thread, in the order of their first call.
pub(crate) fn of_this_thread() -> usize {
    LANE.with(|lane| {
        lane.get().unwrap_or_else(|| {
            let next = THREADS.fetch_add(1, Ordering::Relaxed);
            lane.set(Some(next));
            next
        })
    })
}
