//! From an admitted call to its end.

use std::{
    num::NonZero,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use flint_invoker::{Invoker, Job, Ran, Refusal};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    FunctionQueue, QueueConfig, SchedulerConfig, SchedulerStats,
    board::Board,
    placement::Placement,
    serve::unplaced,
    tend,
    waiting::{Placed, Unplaced},
};

/// Starts at once for each core, unless the configuration says otherwise.
const STARTS_PER_CORE: usize = 2;

/// Instances that a call is given one after the other when they turn out to have ended before it came; the last one gets the call
/// as it is, so that a function which ends by itself is told of.
const INSTANCES_TRIED: u32 = 3;

/// How long instances, and calls that lost theirs, have to end after a drain has run out of time.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Decides which call runs when, on this node.
pub struct Scheduler {
    pub(crate) invoker: Arc<Invoker>,
    pub(crate) config: QueueConfig,
    pub(crate) cores: usize,
    pub(crate) most_starting: usize,
    pub(crate) most_starting_per_function: usize,
    board: Mutex<Board>,
    /// Every task of this scheduler; drain joins them.
    pub(crate) tasks: TaskTracker,
    pub(crate) closing: CancellationToken,
    /// Tells the tending task that somebody waits.
    pub(crate) wake: Arc<Notify>,
    /// Nothing waits, runs or starts any more, in a scheduler that takes no further calls.
    quiet: Notify,
}

impl Scheduler {
    /// A scheduler with empty queues. Must be called within a Tokio runtime: a task looks after the queues, which
    /// [`Self::drain`] joins.
    pub fn new(config: SchedulerConfig, invoker: Arc<Invoker>) -> Arc<Self> {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self::with_cores(config, invoker, cores)
    }

    /// The same for a host with so many cores.
    pub fn with_cores(config: SchedulerConfig, invoker: Arc<Invoker>, cores: usize) -> Arc<Self> {
        let starts = STARTS_PER_CORE * cores;
        let config = config.queue;
        let scheduler = Arc::new(Self {
            invoker,
            cores,
            most_starting: config.starts.unwrap_or(starts).max(1),
            most_starting_per_function: config.starts_per_function.unwrap_or(starts).max(1),
            config,
            board: Mutex::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            wake: Arc::new(Notify::new()),
            quiet: Notify::new(),
        });
        scheduler.tasks.spawn(tend::tend(&scheduler));
        scheduler
    }

    /// Runs a call: waits for an instance, gives it the call, returns when it has answered or begins to stream its answer.
    ///
    /// Cancellation-safe: a call that goes away while it waits frees its place; one that goes away while it runs takes its
    /// instance with it.
    pub async fn run(self: &Arc<Self>, mut job: Job) -> Ran {
        let asked = Instant::now();
        let mut tries = INSTANCES_TRIED;
        loop {
            tries -= 1;
            let placed = match self.place(&job) {
                Placement::Placed(placed) => Ok(placed),
                Placement::Waiting(waiting) => waiting.granted().await,
                Placement::Refused(refusal) => Err(Unplaced::Refused(refusal)),
            };
            match placed {
                Err(why) => return unplaced(&job, why),
                Ok(placed) if tries > 0 && has_ended(&placed) => drop(placed),
                Ok(placed) => {
                    if let Some(before) = job.before.take()
                        && !before.0.await
                    {
                        drop(placed);
                        return unplaced(&job, Unplaced::Refused(Refusal::Withdrawn));
                    }
                    return self.serve(placed, job, asked).await;
                }
            }
        }
    }

    /// Takes no further calls but those that running ones make, waits until all are over, at the latest until `within` has passed; then refuses
    /// what still waits, stops all instances and shuts the invoker down.
    pub async fn drain(&self, within: Duration) {
        self.board().closed = true;
        let over = async {
            loop {
                let quiet = self.quiet.notified();
                {
                    let board = self.board();
                    if board.waiting + board.running == 0 {
                        return;
                    }
                }
                quiet.await;
            }
        };
        let drained = timeout(within, over).await.is_ok();
        {
            let mut board = self.board();
            if !drained {
                tracing::warn!(waiting = board.waiting, running = board.running, "the drain ran out of time");
            }
            board.refuse_all();
        }
        self.closing.cancel();
        self.invoker.shutdown(STOP_PATIENCE).await;
        self.tasks.close();
        if timeout(STOP_PATIENCE, self.tasks.wait()).await.is_err() {
            tracing::error!(tasks = self.tasks.len(), "some calls did not end");
        }
    }

    /// The queues now.
    pub fn stats(&self) -> SchedulerStats {
        let board = self.board();
        let functions = board.queues.values().map(|queue| FunctionQueue {
            namespace: queue.key.namespace.clone(),
            path: queue.key.path.clone(),
            revision: queue.key.revision,
            waiting: queue.waiting.len(),
            running: queue.running(),
            starting: queue.starting,
            service_time: queue.seen.service_seconds().map(Duration::from_secs_f64),
            start_time: queue.seen.start.duration(),
        });
        SchedulerStats {
            waiting: board.waiting,
            running: board.running,
            starting: board.starting,
            totals: board.totals,
            waited: board.waited.clone(),
            functions: functions.collect(),
        }
    }

    /// The queues. Never held across an await; the pool's lock may be taken while this one is held, not the other way round.
    pub(crate) fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a drain that nothing is left to wait for.
    pub(crate) fn note_quiet(&self, board: &Board) {
        if board.closed && board.waiting + board.running == 0 {
            self.quiet.notify_waiters();
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

/// Whether a call's instance has ended before the call was given to it: then it can go to another one, for nothing has happened yet.
fn has_ended(placed: &Placed) -> bool {
    placed.lease.as_ref().is_some_and(|lease| {
        let ended = !lease.is_usable() || lease.has_ended();
        if ended {
            lease.condemn();
        }
        ended
    })
}
