//! The scheduler: runs an admitted call to its end, drains and reports.

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
    host_cores::HostCores,
    placement::Placement,
    serve::unplaced,
    tend,
    waiting::{Placed, Unplaced},
};

/// Concurrent starts per core, unless configured.
const STARTS_PER_CORE: usize = 2;

/// How many instances a call is given in turn while each turns out to have ended before the call reached it.
/// The last one gets the call regardless, so that a function which ends by itself is reported.
const INSTANCES_TRIED: u32 = 3;

/// How long instances, and the calls that lost theirs, may take to end once a drain has run out of time.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Decides which call runs when, on this node.
pub struct Scheduler {
    pub(crate) invoker: Arc<Invoker>,
    pub(crate) config: QueueConfig,
    pub(crate) cores: usize,
    pub(crate) most_starting: usize,
    pub(crate) most_starting_per_function: usize,
    board: Mutex<Board>,
    /// Every task of this scheduler; [`Scheduler::drain`] joins them.
    pub(crate) tasks: TaskTracker,
    pub(crate) closing: CancellationToken,
    /// Tells the tending task that calls wait.
    pub(crate) wake: Arc<Notify>,
    /// Notified when a draining scheduler has no waiting or running call left.
    quiet: Notify,
}

impl Scheduler {
    /// A scheduler with empty queues. Must be called within a Tokio runtime: it spawns the task that tends
    /// the queues, which [`Self::drain`] joins.
    pub fn new(config: SchedulerConfig, invoker: Arc<Invoker>) -> Arc<Self> {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self::build(config, invoker, cores, Some(HostCores::default()))
    }

    /// The same with a given number of cores, which nothing but functions uses.
    pub fn with_cores(config: SchedulerConfig, invoker: Arc<Invoker>, cores: usize) -> Arc<Self> {
        Self::build(config, invoker, cores, None)
    }

    fn build(
        config: SchedulerConfig,
        invoker: Arc<Invoker>,
        cores: usize,
        host: Option<HostCores>,
    ) -> Arc<Self> {
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
        scheduler.tasks.spawn(tend::tend(&scheduler, host));
        scheduler
    }

    /// Runs a call: waits for an instance, gives it the call, and returns when it has answered or begins to
    /// stream its answer.
    ///
    /// Cancellation-safe: a call dropped while it waits frees its place; a call dropped while it runs takes
    /// its instance with it.
    pub async fn run(self: &Arc<Self>, mut job: Job) -> Ran {
        let asked = Instant::now();
        let (mut tries, mut again) = (INSTANCES_TRIED, None);
        loop {
            tries -= 1;
            let placed = match self.place(&job, again) {
                Placement::Placed(placed) => Ok(placed),
                Placement::Waiting(waiting) => waiting.granted().await,
                Placement::Refused(refusal) => Err(Unplaced::Refused(refusal)),
            };
            match placed {
                Err(why) => return unplaced(&job, why),
                Ok(placed) if tries > 0 && has_ended(&placed) => again = Some(placed.ticket),
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

    /// Admits only calls that running ones make, and waits until all are over or `within` has passed. Then
    /// refuses the waiting calls, stops all instances and shuts the invoker down.
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

    /// The state of the queues.
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

    /// Locks the board. Never held across an await. Lock order: the pool's lock may be taken under this one,
    /// never the reverse.
    pub(crate) fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a drain when no call waits or runs any more.
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

/// Whether a call's instance ended before the call was given to it. Nothing has happened yet, so the call can
/// go to another one.
fn has_ended(placed: &Placed) -> bool {
    placed.lease.as_ref().is_some_and(|lease| {
        let ended = !lease.is_usable() || lease.has_ended();
        if ended {
            lease.condemn();
        }
        ended
    })
}
