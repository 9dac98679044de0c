//! Bounds on large uploads and large answers at once: an upload is in memory several times while it is decoded and stored, an answer for as long as
//! its client takes to read it.

use std::{sync::Arc, time::Duration};

use flint_shares::{Share, Shares};
use tokio::time::timeout;

use crate::{Arrival, Arriving};

/// Large uploads at once, and large answers; further ones wait, with their bodies unread, and with their code where it is stored.
const ROOMS: u32 = 4;
/// Of one namespace, so that a client that stalls keeps no other namespace out.
const OF_ONE: u32 = 2;
/// Smaller ones need no room, beside that of [`Arriving`].
const SMALL: u64 = 1 << 20;
/// How long an answer waits for its room. Uploads wait as long as it takes: they have begun to come.
const PATIENCE: Duration = Duration::from_secs(5);

/// The rooms there are. All APIs that take and show code share them.
#[derive(Debug)]
pub struct Uploads {
    bodies: Shares<str>,
    answers: Shares<str>,
    arriving: Arc<Arriving>,
}

/// Held until the code is stored, or as long as its body is read or its answer is made and sent.
#[derive(Debug)]
pub struct Room {
    _share: Share,
}

/// Too many large answers are being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{ROOMS} answers with more than {} MB of code or of a list are sent at once, {OF_ONE} of them to one namespace: read those that were asked for before, or ask for less: without the code, or for fewer at once",
    SMALL >> 20
)]
pub struct NoRoom;

impl NoRoom {
    /// After how many seconds to try again.
    pub const RETRY_AFTER: u32 = 5;
}

impl Uploads {
    /// Rooms of its own, beside others that the bodies of the same server arrive in.
    pub fn new(arriving: Arc<Arriving>) -> Self {
        let rooms = || Shares::new(ROOMS, OF_ONE);
        Self { bodies: rooms(), answers: rooms(), arriving }
    }

    /// A body that begins to arrive, for this namespace.
    pub fn arrival<'a>(&'a self, namespace: &'a str) -> Arrival<'a> {
        self.arriving.arrival(namespace)
    }

    /// The same, unless it has a room already.
    pub fn arrival_without<'a>(&'a self, room: Option<&Room>, namespace: &'a str) -> Option<Arrival<'a>> {
        room.is_none().then(|| self.arrival(namespace))
    }

    /// Waits for room for a body of this length, as far as that is known. `None` for one that needs none.
    pub async fn room(&self, namespace: &str, length: Option<u64>) -> Option<Room> {
        if length.is_some_and(|length| length <= SMALL) {
            return None;
        }
        Some(Room { _share: self.bodies.take(namespace, 1).await })
    }

    /// Waits a little for room for an answer with so many bytes of code, or of a list. `None` for one that needs none.
    pub async fn answer(&self, namespace: &str, bytes: u64) -> Result<Option<Room>, NoRoom> {
        if bytes <= SMALL {
            return Ok(None);
        }
        let share = timeout(PATIENCE, self.answers.take(namespace, 1)).await.map_err(|_| NoRoom)?;
        Ok(Some(Room { _share: share }))
    }
}

impl Default for Uploads {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn who_takes_all_that_one_may_have_keeps_nobody_else_out() {
        let uploads = Uploads::default();
        let large = Some(SMALL + 1);
        let held = [uploads.room("a", large).await.unwrap(), uploads.room("a", None).await.unwrap()];
        let mut more: Vec<_> = (0..10).map(|_| Box::pin(uploads.room("a", large))).collect();
        assert!(more.iter_mut().all(|room| room.now_or_never().is_none()));
        assert!(uploads.room("a", Some(SMALL)).await.is_none(), "small ones need none");
        let others = [uploads.room("b", large).await.unwrap(), uploads.room("c", large).await.unwrap()];
        assert!(uploads.room("d", large).now_or_never().is_none(), "there are no more");
        drop(others);
        assert!(uploads.room("d", large).now_or_never().flatten().is_some());
        drop(held);
        assert!(more.remove(0).now_or_never().flatten().is_some());
        drop(more);
        assert!(uploads.room("e", large).now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_waits_a_little_for_its_room_and_is_refused() {
        let uploads = Uploads::default();
        let answer = |namespace: &'static str| uploads.answer(namespace, SMALL + 1);
        let held = [answer("a").await.unwrap(), answer("a").await.unwrap()];
        assert!(held.iter().all(Option::is_some));
        assert_eq!(answer("a").await.unwrap_err(), NoRoom);
        assert!(uploads.answer("a", SMALL).await.unwrap().is_none(), "small ones need none");
        let others = [answer("b").await.unwrap(), answer("c").await.unwrap()];
        assert_eq!(answer("d").await.unwrap_err(), NoRoom);
        assert!(uploads.room("a", None).now_or_never().flatten().is_some(), "uploads have their own");
        let (waits, ()) = tokio::join!(answer("d"), async { drop(others) });
        assert!(waits.unwrap().is_some());
        drop(held);
        assert!(answer("a").await.unwrap().is_some());
    }
}
