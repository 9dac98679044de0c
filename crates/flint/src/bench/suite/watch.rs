//! Samples memory over time.

use std::{
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::anyhow;
use flint_lab::TreeMemory;

use super::belongings::Belongings;

/// Seconds since the beginning, memory, number of processes.
pub(super) type Look = (f64, TreeMemory, usize);

/// Pause between two processes.
const PAUSE: Duration = Duration::from_millis(1);

/// Samples the memory of functions while they are called, with little disturbance: from a thread of its own,
/// at the lowest priority, one process after the other. Ends on drop.
pub(super) struct Watch {
    end: Sender<()>,
    thread: JoinHandle<Vec<Look>>,
}

impl Watch {
    pub(super) fn begin(belongings: Belongings, every: Duration) -> Self {
        let (end, ended) = channel();
        let begin = Instant::now();
        let thread = std::thread::spawn(move || {
            // For this thread only. If refused, it disturbs a little more.
            let _ = rustix::process::nice(19);
            let mut looks = Vec::new();
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let at = begin.elapsed().as_secs_f64();
                let (memory, processes) = belongings.memory_with_pauses(Some(PAUSE));
                looks.push((at, memory, processes));
            }
            looks
        });
        Self { end, thread }
    }

    /// Ends it, and returns the samples.
    pub(super) fn end(self) -> anyhow::Result<Vec<Look>> {
        drop(self.end);
        self.thread.join().map_err(|_| anyhow!("the thread that looks at memory has panicked"))
    }
}
