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
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use flint_model::NamespaceName;
use flint_shares::Rounds;
use tokio::{
    runtime::{Builder, Runtime},
    time::timeout_at,
};

use crate::{
    meter::Stretch,
    state::{Pace, step_aside},
};

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
    /// As many at once as there are threads to compute.
    turns: Rounds<NamespaceName>,
}

impl LongWork {
    pub(crate) fn start(threads: usize) -> std::io::Result<Self> {
        let threads = threads.max(1);
        let runtime = Builder::new_multi_thread()
            // One computes nothing: what is woken or new lines up, and connections go on, while all others compute.
            .worker_threads(threads + 1)
            .max_blocking_threads(threads.max(LEAST_FILE_THREADS))
            // By default a thread looks after every 61st poll for what gave way to it, and a poll lasts up to a tick.
            .event_interval(1)
            .thread_name("wasm-long")
            .enable_all()
            .build()?;
        Ok(Self { runtime: Some(runtime), turns: Rounds::new(threads) })
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
        let in_turns = in_turns(self.turns.clone(), whose.clone(), work);
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
async fn in_turns<T>(turns: Rounds<NamespaceName>, whose: NamespaceName, mut work: Work<T>) -> T {
    let mut place = turns.line_up(&whose);
    loop {
        let turn = place.turn().await;
        let (polled, woken) = poll_watched(&mut work).await;
        if let Poll::Ready(done) = polled {
            return done;
        }
        if woken.is_woken() {
            // It could go on at once, so it lines up before another gets its turn. Whoever is polled first has no
            // more turns by that.
            place = turns.line_up(&whose);
            drop(turn);
            // Back to the runtime, where it may be aborted, and whoever got the turn goes on.
            step_aside().await;
        } else {
            drop(turn);
            poll_fn(|_| if woken.is_woken() { Poll::Ready(()) } else { Poll::Pending }).await;
            place = turns.line_up(&whose);
        }
    }
}

/// Knows whether work was woken since it was polled. Its task is woken with it.
struct Woken {
    is_woken: AtomicBool,
    task: Waker,
}

impl Woken {
    fn is_woken(&self) -> bool {
        self.is_woken.load(Ordering::Acquire)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

/// Polls once with a waker that can be asked.
async fn poll_watched<T>(work: &mut Work<T>) -> (Poll<T>, Arc<Woken>) {
    poll_fn(|cx| {
        let woken = Arc::new(Woken { is_woken: AtomicBool::new(false), task: cx.waker().clone() });
        let polled = work.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&woken))));
        Poll::Ready((polled, woken))
    })
    .await
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
        collections::{HashSet, VecDeque},
        sync::{Mutex, atomic::AtomicUsize, mpsc},
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
                    step_aside().await;
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
        assert!(between.iter().all(|others| *others <= 1), "{between:?}");
    }

    #[tokio::test]
    async fn on_several_threads_each_namespace_has_a_turn_in_each_round() {
        const THREADS: usize = 2;
        /// Of each of two namespaces; a third one has one more.
        const CALLS: usize = 8;
        let (long, pace) = (LongWork::start(THREADS).unwrap(), overstayed());
        let names: [NamespaceName; 3] = ["a", "b", "other"].map(|name| name.parse().unwrap());
        let (begin, begun) = mpsc::channel();
        let computing = |number: usize| -> Work<()> {
            let begin = begin.clone();
            Box::pin(async move {
                for _ in 0..usize::MAX {
                    // The first time it is polled where it is called.
                    step_aside().await;
                    let (end, ended) = mpsc::channel::<()>();
                    // Once the test is over nobody is told.
                    let _ = begin.send((number, end));
                    let _ = ended.recv();
                }
            })
        };
        // Ends the oldest of the polls that are under way, so that one begins, again and again.
        let watching = spawn_blocking(move || {
            let (mut under_way, mut seen, mut order) = (VecDeque::new(), HashSet::new(), Vec::new());
            while order.len() < 40 {
                let (number, end) = begun.recv().unwrap();
                under_way.push_back(end);
                seen.insert(number);
                // Before that, some have not lined up yet.
                if seen.len() == 2 * CALLS + 1 {
                    order.push(number / CALLS);
                }
                if under_way.len() == THREADS {
                    under_way.pop_front();
                }
            }
            order
        });
        let calls =
            (0..=2 * CALLS).map(|number| long.drive(computing(number), &pace, &names[number / CALLS]));
        let order = tokio::select! {
            biased;
            _ = join_all(calls) => panic!("they do not end"),
            order = watching => order.unwrap(),
        };
        let places: Vec<_> = (0..order.len()).filter(|place| order[*place] == 2).collect();
        // While it computes, one of the others begins; then one of each.
        assert!(places.len() > 5 && places.windows(2).all(|pair| pair[1] - pair[0] == 4), "{order:?}");
    }

    #[tokio::test]
    async fn who_is_cut_leaves_its_turn_to_others() {
        let long = LongWork::start(1).unwrap();
        let guest = "guest".parse().unwrap();
        let computing = |polls: usize| -> Work<()> {
            Box::pin(async move {
                for _ in 0..polls {
                    step_aside().await;
                }
            })
        };
        let late = Pace::until(Instant::now());
        late.overstay();
        for _ in 0..3 {
            assert_eq!(long.drive(computing(usize::MAX), &late, &guest).await, Err(Cut::Deadline));
        }
        assert_eq!(long.drive(computing(9), &overstayed(), &guest).await, Ok(()));
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
