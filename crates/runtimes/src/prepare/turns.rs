//! A fair queue for builds: a fixed number runs at once, and waiting namespaces take turns, so that none
//! holds up the others.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use flint_model::NamespaceName;
use tokio::sync::oneshot;

/// The queue of a server.
#[derive(Debug)]
pub(crate) struct Turns(Shared);

type Shared = Arc<Mutex<State>>;

#[derive(Debug)]
struct State {
    /// Free turns; nobody waits while there are any.
    free: usize,
    /// How many builds of one namespace may wait.
    waiting_max: usize,
    /// The waiting namespaces, the next one first.
    lines: VecDeque<Line>,
}

#[derive(Debug)]
struct Line {
    namespace: NamespaceName,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

/// Permission to build, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Option<Shared>);

/// As many builds of the namespace are waiting as may.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManyWait(pub(crate) usize);

impl Turns {
    pub(crate) fn new(at_once: usize, waiting_max: usize) -> Self {
        let free = at_once.max(1);
        Self(Arc::new(Mutex::new(State { free, waiting_max, lines: VecDeque::new() })))
    }

    /// Takes a turn if one is free.
    pub(crate) fn try_take(&self) -> Option<Turn> {
        let mut state = lock(&self.0);
        state.free = state.free.checked_sub(1)?;
        Some(Turn(Some(Arc::clone(&self.0))))
    }

    /// Waits for a turn.
    pub(crate) async fn take(&self, namespace: &NamespaceName) -> Result<Turn, TooManyWait> {
        if let Some(turn) = self.try_take() {
            return Ok(turn);
        }
        let turn = lock(&self.0).join(namespace)?;
        Ok(turn.await.expect("whoever is in a line keeps it"))
    }
}

impl State {
    fn join(&mut self, namespace: &NamespaceName) -> Result<oneshot::Receiver<Turn>, TooManyWait> {
        let (turn, comes) = oneshot::channel();
        match self.lines.iter_mut().find(|line| line.namespace == *namespace) {
            Some(line) => {
                // Drop those whose caller has gone.
                line.waiting.retain(|other| !other.is_closed());
                if line.waiting.len() >= self.waiting_max {
                    return Err(TooManyWait(line.waiting.len()));
                }
                line.waiting.push_back(turn);
            }
            None => self.lines.push_back(Line { namespace: namespace.clone(), waiting: [turn].into() }),
        }
        Ok(comes)
    }

    /// The next waiting build; its namespace goes to the end of the queue.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        while let Some(mut line) = self.lines.pop_front() {
            let next = line.waiting.pop_front();
            if !line.waiting.is_empty() {
                self.lines.push_back(line);
            }
            if next.is_some() {
                return next;
            }
        }
        None
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(shared) = self.0.take() else { return };
        let mut state = lock(&shared);
        while let Some(next) = state.next() {
            match next.send(Turn(Some(Arc::clone(&shared)))) {
                Ok(()) => return,
                // Its caller has gone, so the next one gets the turn.
                Err(mut turn) => drop(turn.0.take()),
            }
        }
        state.free += 1;
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const WAITING_MAX: usize = 32;

    fn name(text: &str) -> NamespaceName {
        text.parse().unwrap()
    }

    type Waiting<'a> = std::pin::Pin<Box<dyn Future<Output = Result<Turn, TooManyWait>> + 'a>>;

    fn wait<'a>(turns: &'a Turns, namespace: &'a NamespaceName) -> Waiting<'a> {
        let mut waiting: Waiting<'a> = Box::pin(turns.take(namespace));
        assert!(look(&mut waiting).is_none());
        waiting
    }

    fn look(waiting: &mut Waiting<'_>) -> Option<Turn> {
        waiting.now_or_never().map(Result::unwrap)
    }

    #[test]
    fn namespaces_take_turns_however_many_builds_one_of_them_brings() {
        let (turns, many, few) = (Turns::new(1, 8), name("many"), name("few"));
        let first = turns.try_take().unwrap();
        let mut waiting: Vec<_> = (0..3).map(|_| wait(&turns, &many)).collect();
        let mut late = wait(&turns, &few);
        drop(first);
        let second = look(&mut waiting[0]).expect("the longest waiting is next");
        assert!(look(&mut late).is_none());
        drop(second);
        let third = look(&mut late).expect("the other namespace is next");
        assert!(look(&mut waiting[1]).is_none());
        drop(third);
        let fourth = look(&mut waiting[1]).expect("the first one again");
        drop((fourth, waiting));
        assert!(turns.try_take().is_some());
    }

    #[test]
    fn whoever_goes_away_takes_no_turn_along() {
        let (turns, guest) = (Turns::new(1, 8), name("guest"));
        let first = turns.try_take().unwrap();
        let gone = wait(&turns, &guest);
        let mut stays = wait(&turns, &guest);
        drop(gone);
        drop(first);
        let turn = look(&mut stays).unwrap();
        // Also when the turn was granted but never received.
        let unseen = wait(&turns, &guest);
        drop(turn);
        assert!(turns.try_take().is_none());
        drop(unseen);
        assert!(turns.try_take().is_some());
    }

    #[test]
    fn a_namespace_has_only_so_many_builds_waiting() {
        let (turns, guest, other) = (Turns::new(2, WAITING_MAX), name("guest"), name("other"));
        let running = (turns.try_take().unwrap(), turns.try_take().unwrap());
        let mut waiting: Vec<_> = (0..WAITING_MAX).map(|_| wait(&turns, &guest)).collect();
        assert_eq!(turns.take(&guest).now_or_never().unwrap().unwrap_err(), TooManyWait(WAITING_MAX));
        let others = wait(&turns, &other);
        waiting.pop();
        waiting.push(wait(&turns, &guest));
        drop((running, waiting, others));
        assert!(turns.try_take().is_some());
    }
}
