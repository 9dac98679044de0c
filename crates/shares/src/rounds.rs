//! Turns that go round: whoever waits has one in each round, however many times it waits.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// Turns, of which there are so many at once. Clones share them.
#[derive(Clone)]
pub struct Rounds<K: Clone + Eq + Hash>(Arc<Mutex<Line<K>>>);

/// A place in line, until it is dropped.
pub struct Place<K: Clone + Eq + Hash>(oneshot::Receiver<Turn<K>>);

/// A turn. Once it is dropped, it is the next one's.
pub struct Turn<K: Clone + Eq + Hash>(Arc<Mutex<Line<K>>>);

/// Hands a turn to whoever has the place.
type Hand<K> = oneshot::Sender<Turn<K>>;

struct Line<K: Clone + Eq + Hash> {
    /// Turns that nobody has: none while anybody waits.
    free: usize,
    /// Those that wait, each once: the next is the first.
    order: VecDeque<K>,
    /// Their places.
    waiting: HashMap<K, VecDeque<Hand<K>>>,
}

impl<K: Clone + Eq + Hash> Rounds<K> {
    /// So many turns, at least one, and nobody has any.
    pub fn new(turns: usize) -> Self {
        let (free, order, waiting) = (turns.max(1), VecDeque::new(), HashMap::new());
        Self(Arc::new(Mutex::new(Line { free, order, waiting })))
    }

    /// Takes a place behind whoever waits, at once: it need not be polled for that.
    pub fn line_up(&self, who: &K) -> Place<K> {
        let (hand, place) = oneshot::channel();
        let free = lock(&self.0).wait(who, hand);
        if let Some(hand) = free {
            let _ = hand.send(Turn(Arc::clone(&self.0))); // its place is below
        }
        Place(place)
    }
}

impl<K: Clone + Eq + Hash> Place<K> {
    /// Waits for the turn.
    pub async fn turn(self) -> Turn<K> {
        self.0.await.expect("while anybody waits, somebody has a turn, and hands it on")
    }
}

impl<K: Clone + Eq + Hash> Line<K> {
    /// Gives the hand back if there is a turn for it.
    fn wait(&mut self, who: &K, hand: Hand<K>) -> Option<Hand<K>> {
        if self.free > 0 {
            self.free -= 1;
            return Some(hand);
        }
        match self.waiting.get_mut(who) {
            Some(own) => own.push_back(hand),
            None => {
                self.order.push_back(who.clone());
                self.waiting.insert(who.clone(), [hand].into());
            }
        }
        None
    }

    /// Whose turn a turn is that somebody had.
    fn next(&mut self) -> Option<Hand<K>> {
        while let Some(who) = self.order.pop_front() {
            let Some(own) = self.waiting.get_mut(&who) else { continue };
            // Who gave up is passed over.
            let next = std::iter::from_fn(|| own.pop_front()).find(|hand| !hand.is_closed());
            if own.is_empty() {
                self.waiting.remove(&who);
            } else {
                self.order.push_back(who);
            }
            if next.is_some() {
                return next;
            }
        }
        self.free += 1;
        None
    }
}

impl<K: Clone + Eq + Hash> Drop for Turn<K> {
    fn drop(&mut self) {
        let next = lock(&self.0).next();
        if let Some(hand) = next {
            // Who gives up just now drops it: then it goes on to another.
            let _ = hand.send(Self(Arc::clone(&self.0)));
        }
    }
}

fn lock<K: Clone + Eq + Hash>(line: &Mutex<Line<K>>) -> MutexGuard<'_, Line<K>> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The turn of who lined up, if it is its turn.
    fn now(place: &mut Place<&'static str>) -> Option<Turn<&'static str>> {
        place.0.try_recv().ok()
    }

    #[test]
    fn who_waits_often_has_no_more_turns_than_who_waits_once() {
        let rounds = Rounds::new(1);
        let mut waiting: Vec<_> =
            ["a", "a", "a", "a", "b", "b", "c"].into_iter().map(|who| (who, rounds.line_up(&who))).collect();
        let mut order = Vec::new();
        while let Some(at) = waiting.iter_mut().position(|(_, place)| now(place).is_some()) {
            // What was taken is dropped, so that another's turn has come.
            order.push(waiting.remove(at).0);
        }
        assert_eq!(order, ["a", "a", "b", "c", "a", "b", "a"]);
    }

    #[test]
    fn there_are_so_many_at_once() {
        let rounds = Rounds::new(2);
        let mut places = ["a", "a", "b"].map(|who| rounds.line_up(&who));
        let [first, second, third] = places.each_mut().map(now);
        assert!(first.is_some() && second.is_some() && third.is_none());
        drop(first);
        assert!(now(&mut places[2]).is_some());
    }

    #[test]
    fn who_gives_up_leaves_its_turn_to_others() {
        let rounds = Rounds::new(1);
        let turn = now(&mut rounds.line_up(&"a")).unwrap();
        let many: Vec<_> = (0..10_000).map(|_| rounds.line_up(&"a")).collect();
        let mut other = rounds.line_up(&"b");
        // Handed to the first of them, which never takes it.
        drop(turn);
        assert!(now(&mut other).is_none());
        drop(many);
        let turn = now(&mut other).unwrap();
        let late = rounds.line_up(&"a");
        drop((late, turn));
        let line = lock(&rounds.0);
        assert_eq!((line.free, line.order.len(), line.waiting.len()), (1, 0, 0), "nothing is kept");
    }
}
