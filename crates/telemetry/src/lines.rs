//! Log lines on their way to where they are written.
//!
//! Logging neither waits nor fails: a line goes into a bounded queue, and one thread writes it. Lines that do not fit, because nobody reads, or cannot
//! be written, because the reader is gone or the disk is full, are dropped and counted.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Most that waits, in bytes.
const MOST_BYTES: usize = 1 << 20;

/// The queue. Each `write` is one line.
#[derive(Clone, Debug)]
pub(crate) struct Lines(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Wakes the thread.
    filled: Condvar,
    /// Wakes those who wait until all is written.
    emptied: Condvar,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// The thread has one in hand.
    writing: bool,
}

impl Queue {
    fn is_done(&self) -> bool {
        self.lines.is_empty() && !self.writing
    }
}

impl Lines {
    /// Starts the thread, which lives as long as the process.
    pub(crate) fn to(sink: impl io::Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let lines = Self(Arc::clone(&shared));
        std::thread::Builder::new().name("flint-stderr".to_owned()).spawn(move || shared.run(sink))?;
        Ok(lines)
    }

    /// How many lines were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.0.dropped.load(Relaxed)
    }

    /// Waits until all lines are written, but not for longer than `within`.
    pub(crate) fn flush(&self, within: Duration) {
        // Whoever has waited for long enough goes on either way.
        let _ = self.0.emptied.wait_timeout_while(self.0.queue(), within, |queue| !queue.is_done());
    }
}

impl io::Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut queue = self.0.queue();
        if queue.bytes + line.len() > MOST_BYTES {
            self.0.dropped.fetch_add(1, Relaxed);
        } else {
            queue.bytes += line.len();
            queue.lines.push_back(line.to_vec());
            self.0.filled.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut sink: impl io::Write) {
        let mut told = 0;
        loop {
            let line = self.next();
            let written = sink.write_all(&line).and_then(|()| sink.flush());
            if written.is_err() {
                self.dropped.fetch_add(1, Relaxed);
            }
            let mut queue = self.queue();
            queue.writing = false;
            let done = queue.is_done();
            if done {
                self.emptied.notify_all();
            }
            drop(queue);
            if written.is_ok() && done {
                // Only now, when it has caught up: under a load that it cannot keep up with, this would add to that.
                let dropped = self.dropped.load(Relaxed);
                if dropped > told {
                    tracing::warn!(
                        lines = dropped - told,
                        "log lines were dropped before this one: nobody read them, or they could not be written"
                    );
                    told = dropped;
                }
            }
        }
    }

    fn next(&self) -> Vec<u8> {
        let mut queue = self.queue();
        loop {
            if let Some(line) = queue.lines.pop_front() {
                queue.bytes -= line.len();
                queue.writing = true;
                return line;
            }
            queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, sync::mpsc};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Takes a line when it is told to, and says what it got. Who tells it nothing more has gone away.
    struct Slow {
        turns: mpsc::Receiver<()>,
        got: mpsc::Sender<Vec<u8>>,
    }

    impl io::Write for Slow {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.turns.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
            let _ = self.got.send(line.to_vec());
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_nobody_takes_stops_nobody_and_is_counted() {
        let ((turn, turns), (got, lines_got)) = (mpsc::channel(), mpsc::channel());
        let mut lines = Lines::to(Slow { turns, got }).unwrap();
        let line = |number: usize| format!("{number:01024}\n").into_bytes();
        let count = 3 * MOST_BYTES / line(0).len();
        lines.write_all(&line(0)).unwrap();
        // Once the first is in the thread's hands, room comes free no more.
        while !lines.0.queue().writing {
            std::thread::yield_now();
        }
        for number in 1..count {
            lines.write_all(&line(number)).unwrap();
        }
        let dropped = lines.dropped() as usize;
        assert!((count / 2..count).contains(&dropped), "{dropped} of {count}");
        // The first ones are written, in order.
        let kept = count - dropped;
        (0..kept).for_each(|_| turn.send(()).unwrap());
        lines.flush(LONG);
        assert!(lines_got.try_iter().eq((0..kept).map(line)));
        // The reader goes away.
        drop(turn);
        lines.write_all(&line(0)).unwrap();
        lines.write_all(&line(1)).unwrap();
        lines.flush(LONG);
        lines.write_all(&line(2)).unwrap();
        lines.flush(LONG);
        assert_eq!(lines.dropped() as usize, dropped + 3);
        assert_eq!(lines_got.try_iter().count(), 0);
    }

    #[test]
    fn who_waits_for_a_reader_that_does_not_read_waits_for_a_while_only() {
        let ((turn, turns), (got, _got)) = (mpsc::channel(), mpsc::channel());
        let mut lines = Lines::to(Slow { turns, got }).unwrap();
        lines.write_all(b"a line\n").unwrap();
        lines.flush(Duration::from_millis(1));
        drop(turn);
    }
}
