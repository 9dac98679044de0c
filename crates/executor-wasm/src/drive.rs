//! Runs a guest: on its call's thread while it is quick, on threads for long work after that.
//!
//! A thread switch costs more than most calls. But a call that computes must not occupy a thread that serves
//! others: once it has run for longer than a tick it continues on the runtime of [`LongWork`], where
//! computing calls take turns, and those of one namespace no more of them than those of another.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use flint_model::NamespaceName;
use flint_shares::Shares;
use tokio::{
    runtime::{Builder, Runtime},
    time::timeout_at,
};

use crate::{meter::Stretch, state::Pace};

/// Least threads for what calls that take long do with files. The runtime's default would be 512, and each may
/// have its processor at work all the time: who lists a large folder again and again does.
const LEAST_FILE_THREADS: usize = 4;

/// A running guest.
pub(crate) type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Why a guest was cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Deadline,
    /// Its thread panicked, or the server is stopping.
    Lost,
}

/// Threads for calls that compute for long, and as many for what these do with files.
pub(crate) struct LongWork {
    /// `Some` until it is dropped.
    runtime: Option<Runtime>,
    /// The threads. A namespace's calls wait for each other first, so that of many no more wait for a thread than
    /// there are threads.
    turns: Arc<Shares<NamespaceName>>,
}

impl LongWork {
    pub(crate) fn start(threads: usize) -> std::io::Result<Self> {
        let threads = threads.max(1);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .max_blocking_threads(threads.max(LEAST_FILE_THREADS))
            .thread_name("wasm-long")
            .enable_all()
            .build()?;
        let threads = u32::try_from(threads).unwrap_or(u32::MAX);
        Ok(Self { runtime: Some(runtime), turns: Arc::new(Shares::new(threads, threads)) })
    }

    /// Runs `work` to its end or its deadline, at which it is dropped as soon as it yields. `whose` is the namespace
    /// that it is charged to.
    pub(crate) async fn drive<T: Send + 'static>(
        &self,
        mut work: Work<T>,
        pace: &Pace,
        whose: &NamespaceName,
    ) -> Result<T, Cut> {
        // Most calls end here, without a timer, a task or another thread.
        if let Poll::Ready(done) = poll_once(&mut work).await {
            return Ok(done);
        }
        let deadline = pace.deadline().into();
        let quick = poll_fn(|cx| {
            if pace.overstayed() {
                return Poll::Ready(None);
            }
            work.as_mut().poll(cx).map(Some)
        });
        match timeout_at(deadline, quick).await {
            Err(_) => return Err(Cut::Deadline),
            Ok(Some(done)) => return Ok(done),
            Ok(None) => {}
        }
        let Some(runtime) = &self.runtime else { return Err(Cut::Lost) };
        let in_turns = in_turns(Arc::clone(&self.turns), whose.clone(), work);
        let mut task = AbortOnDrop(runtime.spawn(in_turns));
        match timeout_at(deadline, &mut task.0).await {
            Err(_) => Err(Cut::Deadline),
            Ok(Err(_)) => Err(Cut::Lost),
            Ok(Ok(done)) => Ok(done),
        }
    }
}

impl Drop for LongWork {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Its tasks were aborted together with their calls. A runtime must not be waited for within
            // another one, so this does not block.
            runtime.shutdown_background();
        }
    }
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Polls work in its namespace's turns only.
async fn in_turns<T>(turns: Arc<Shares<NamespaceName>>, whose: NamespaceName, mut work: Work<T>) -> T {
    loop {
        let turn = turns.take(&whose, 1).await;
        // A thread polls one task at a time: a turn that ended with the poll it began in would be there for whoever
        // is polled next, and calls would have turns as they stand in the runtime's queue, each one as many as another.
        behind_others().await;
        let polled = poll_once(&mut work).await;
        drop(turn);
        if let Poll::Ready(done) = polled {
            return done;
        }
        until_woken().await;
    }
}

/// Ready once what else is in the runtime's queue was polled.
async fn behind_others() {
    poll_fn(|cx| {
        cx.waker().wake_by_ref();
        Poll::Ready(())
    })
    .await;
    until_woken().await;
}

/// Ready once the task is woken, by whatever it polled before.
async fn until_woken() {
    let mut waited = false;
    poll_fn(|_| if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// Polls once with the caller's waker.
async fn poll_once<T>(work: &mut Work<T>) -> Poll<T> {
    poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await
}

/// Measures the CPU time of a future's polls.
pub(crate) struct Metered<F> {
    work: F,
    spent: Arc<AtomicU64>,
}

impl<F> Metered<F> {
    pub(crate) fn new(work: F) -> (Self, Spent) {
        Self::after(Spent::default(), work)
    }

    /// Work that goes on after other work of the same call.
    pub(crate) fn after(spent: Spent, work: F) -> (Self, Spent) {
        (Self { work, spent: Arc::clone(&spent.0) }, spent)
    }
}

/// The CPU time so far, in ns.
#[derive(Default)]
pub(crate) struct Spent(Arc<AtomicU64>);

impl Spent {
    pub(crate) fn so_far(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

impl<F: Future + Unpin> Future for Metered<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let stretch = Stretch::begin();
        let polled = Pin::new(&mut self.work).poll(cx);
        self.spent.fetch_add(stretch.end().as_nanos() as u64, Ordering::Relaxed);
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Mutex, atomic::AtomicUsize},
        time::Instant,
    };

    use futures_util::future::join_all;
    use tokio::task::{spawn_blocking, yield_now};

    use super::*;

    /// That of a call which has run for long.
    fn overstayed() -> Arc<Pace> {
        let pace = Pace::until(Instant::now() + Duration::from_secs(60));
        pace.overstay();
        pace
    }

    #[tokio::test]
    async fn who_has_many_calls_has_no_more_turns_than_others() {
        let (long, pace) = (LongWork::start(1).unwrap(), overstayed());
        let [greedy, other]: [NamespaceName; 2] = ["greedy", "other"].map(|name| name.parse().unwrap());
        let polled = Arc::new(Mutex::new(Vec::new()));
        let computing = |is_other: bool, polls: usize| -> Work<()> {
            let polled = Arc::clone(&polled);
            Box::pin(async move {
                for _ in 0..polls {
                    polled.lock().unwrap().push(is_other);
                    // As a guest does at a tick: it could go on at once.
                    behind_others().await;
                }
            })
        };
        let many = join_all((0..100).map(|_| long.drive(computing(false, usize::MAX), &pace, &greedy)));
        let one = long.drive(computing(true, 20), &pace, &other);
        tokio::select! {
            biased;
            _ = many => panic!("they do not end"),
            done = one => assert_eq!(done, Ok(())),
        }
        let polled = polled.lock().unwrap();
        let places: Vec<_> = (0..polled.len()).filter(|place| polled[*place]).collect();
        // The first time it is polled where it is called.
        let between: Vec<_> = places[1..].windows(2).map(|pair| pair[1] - pair[0] - 1).collect();
        assert!(between.iter().all(|others| *others < 20), "{between:?}");
    }

    #[tokio::test]
    async fn what_long_calls_do_with_files_has_few_threads() {
        let (long, pace) = (LongWork::start(1).unwrap(), overstayed());
        let guest = "guest".parse().unwrap();
        let counts = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let (shared, own) = (Arc::clone(&counts), std::thread::current().id());
        let work: Work<bool> = Box::pin(async move {
            yield_now().await;
            let operations = (0..40).map(|_| {
                let shared = Arc::clone(&shared);
                spawn_blocking(move || {
                    let (running, most) = &*shared;
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(5));
                    running.fetch_sub(1, Ordering::SeqCst);
                })
            });
            let done = join_all(operations).await;
            done.iter().all(Result::is_ok) && std::thread::current().id() != own
        });
        assert_eq!(long.drive(work, &pace, &guest).await, Ok(true));
        let most = counts.1.load(Ordering::SeqCst);
        assert!((1..=LEAST_FILE_THREADS).contains(&most), "{most}");
    }
}
