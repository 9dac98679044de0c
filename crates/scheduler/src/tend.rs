//! The task that looks after waiting calls: time passes for them also when nothing else happens.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, sleep_until};

use crate::{Scheduler, queue::FunctionQueue};

/// How often the need for more instances is looked at, at least, while somebody waits.
const ROUND: Duration = Duration::from_millis(5);

/// The shortest time between two rounds while somebody waits: however often something comes free.
const SHORTEST_ROUND: Duration = Duration::from_millis(1);

/// A round that comes so late says that Flint was not running: the time that calls seem to have waited means nothing then.
const LATE: Duration = Duration::from_millis(20);

/// Until the scheduler is drained or dropped.
pub(crate) fn tend(scheduler: &Arc<Scheduler>) -> impl Future<Output = ()> + Send + 'static {
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
                // Not twice: on a host that is always late, time has to count all the same.
                late = !late && next.is_some() && from.elapsed() > LATE;
                next = scheduler.look_after(!late);
            }
            if next.is_some() {
                sleep(SHORTEST_ROUND).await;
            }
        }
    }
}

impl Scheduler {
    /// Refuses who has waited too long, gives out what is idle, starts what is worth it. Says when to come again if somebody still waits.
    fn look_after(self: &Arc<Self>, by_the_clock: bool) -> Option<Instant> {
        let now = Instant::now();
        let mut next = now + ROUND;
        let mut board = self.board();
        if board.waiting > 0 {
            board.expire(self.config.max_wait, now);
            let listed = board.in_turn();
            for key in &listed {
                self.hand_over_idle(&mut board, key, now);
            }
            board.by_the_clock = by_the_clock;
            self.start_where_needed(&mut board, now);
            board.by_the_clock = false;
            board.short =
                listed.iter().any(|key| board.queues.get(key).is_some_and(FunctionQueue::is_short_of_memory));
            board.claim = if board.short { self.claimant(&board, &listed, now) } else { None };
            let due = listed.iter().filter_map(|key| board.queues.get(key)?.due(now)).min();
            next = due.map_or(next, |due| due.min(next));
            self.note_quiet(&board);
        }
        board.tended = board.waiting > 0;
        board.short &= board.tended;
        board.tended.then_some(next)
    }
}
