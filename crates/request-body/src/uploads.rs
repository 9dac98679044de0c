//! Room for uploads of code, which are in memory several times while they are decoded and stored.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Large uploads at once; further ones wait with their bodies unread.
const ROOMS: usize = 4;
/// Of one namespace, so that whoever stalls his own keeps nobody else's out.
const OF_ONE: usize = 2;
/// Smaller ones need no room.
const SMALL: u64 = 1 << 20;

/// The rooms there are. All APIs that take code share them.
#[derive(Debug)]
pub struct Uploads {
    rooms: Arc<Semaphore>,
    /// Those of each namespace that has some.
    shares: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// Held until the code is stored, or as long as its body is read.
#[derive(Debug)]
pub struct Room {
    _room: OwnedSemaphorePermit,
    _share: OwnedSemaphorePermit,
}

impl Default for Uploads {
    fn default() -> Self {
        Self { rooms: Arc::new(Semaphore::new(ROOMS)), shares: Mutex::default() }
    }
}

impl Uploads {
    /// Waits for room for a body of this length, as far as that is known. `None` for one that needs none.
    pub async fn room(&self, namespace: &str, length: Option<u64>) -> Option<Room> {
        if length.is_some_and(|length| length <= SMALL) {
            return None;
        }
        // Its own first: what it has too many of does not stand in the common queue.
        let share = self.share(namespace).acquire_owned().await.ok()?;
        let room = Arc::clone(&self.rooms).acquire_owned().await.ok()?;
        Some(Room { _room: room, _share: share })
    }

    fn share(&self, namespace: &str) -> Arc<Semaphore> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(namespace).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(OF_ONE));
        shares.insert(namespace.to_owned(), Arc::downgrade(&share));
        share
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
        assert_eq!(uploads.shares.lock().unwrap().len(), 1, "who has none is forgotten");
    }
}
