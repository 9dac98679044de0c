//! The task that tends the queues: it acts on waiting calls as time passes, when no call arrives or ends.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, sleep_until};

use flint_invoker::InstanceKey;

use crate::{Scheduler, board::Board, host_cores::HostCores, queue::FunctionQueue};

/// Longest time between two evaluations while calls wait.
const ROUND: Duration = Duration::from_millis(5);

/// Shortest time between two evaluations while calls wait, however often capacity becomes free.
const SHORTEST_ROUND: Duration = Duration::from_millis(1);

/// A round later than this shows that Flint was not running: the waiting times of calls mean nothing then.
const LATE: Duration = Duration::from_millis(20);

/// Runs until the scheduler is drained or dropped. Without a `host`, all cores are idle that functions do not
/// use.
pub(crate) fn tend(
    scheduler: &Arc<Scheduler>,
    mut host: Option<HostCores>,
) -> impl Future<Output = ()> + Send + 'static {
    let closing = scheduler.closing.clone();
    let wake = Arc::clone(&scheduler.wake);
    let invoker = Arc::clone(&scheduler.invoker);
    let scheduler = Arc::downgrade(scheduler);
    async move {
        let (mut next, mut late) = (None, false);
        loop {
            let from = Instant::now();
            tokio::select! {
                () = closing.cancelled() => return,
                () = wake.notified() => {}
                () = invoker.capacity_changed() => {}
                () = sleep_until(next.unwrap_or(from)), if next.is_some() => {}
            }
            {
                let Some(scheduler) = scheduler.upgrade() else { return };
                // Never two late rounds in a row: on a host that is always late, time has to count all the
                // same.
                late = !late && next.is_some() && from.elapsed() > LATE;
                let idle_cores = host.as_mut().map_or(f64::INFINITY, HostCores::idle);
                next = scheduler.look_after(!late, idle_cores);
            }
            if next.is_some() {
                sleep(SHORTEST_ROUND).await;
            }
        }
    }
}

impl Scheduler {
    /// Refuses calls that have waited too long, hands out idle instances, and starts those that are worth it.
    /// Returns the time of the next round while calls wait.
    fn look_after(self: &Arc<Self>, by_the_clock: bool, idle_cores: f64) -> Option<Instant> {
        let now = Instant::now();
        let mut next = now + ROUND;
        let mut board = self.board();
        if board.waiting > 0 {
            board.expire(self.config.max_wait, now);
            let listed = board.in_turn();
            for key in &listed {
                self.hand_over_idle(&mut board, key, now);
            }
            board.begin_round(by_the_clock, idle_cores);
            self.start_where_needed(&mut board, now);
            if by_the_clock {
                self.forget_shortages(&mut board, &listed, now);
            }
            board.by_the_clock = false;
            board.short =
                listed.iter().any(|key| board.queues.get(key).is_some_and(FunctionQueue::is_short_of_memory));
            board.claims = if board.short { self.claimants(&board, &listed, now) } else { Vec::new() };
            let due = listed.iter().filter_map(|key| board.queues.get(key)?.due(now)).min();
            next = due.map_or(next, |due| due.min(next));
            self.note_quiet(&board);
        }
        board.tended = board.waiting > 0;
        board.short &= board.tended;
        board.tended.then_some(next)
    }

    /// Forgets what starts lacked that are not wanted any more.
    fn forget_shortages(&self, board: &mut Board, listed: &[Arc<InstanceKey>], now: Instant) {
        for key in listed {
            let unwanted = board
                .queues
                .get(key)
                .is_some_and(|queue| queue.short.is_some() && !self.is_worth_it(board, queue, true, now));
            if unwanted && let Some(queue) = board.queues.get_mut(key) {
                queue.short = None;
            }
        }
    }
}
