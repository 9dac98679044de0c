//! What a guest holds for longer than its store, whose drop gives the pool its slots back.

use std::sync::Arc;

use crate::{settled::Settled, shelf::Loaded, tenant::Tenant, ticker::Beat};

/// The code of a guest and its places.
pub(crate) struct Held {
    pub(crate) code: Arc<Loaded>,
    pub(crate) places: Places,
}

/// Places of an engine's pool: first out of the share of the namespace, then of all. So calls that wait for
/// their own namespace's stand in nobody's way.
pub(crate) struct Places {
    pub(crate) settled: Arc<Settled>,
    guest: Option<Arc<Tenant>>,
    _beat: Beat,
}

impl Places {
    /// Takes them if they are free; `guest` is the caller's namespace, if the function is another's.
    pub(crate) fn at_once(settled: &Arc<Settled>, guest: Option<&Arc<Tenant>>) -> Option<Self> {
        let ground = &settled.ground;
        let share = settled.tenant(guest).places(ground.number);
        let of_share = share.slots.try_acquire_many(share.of(settled.places)).ok()?;
        let places = ground.slots.try_acquire_many(settled.places).ok()?;
        of_share.forget();
        places.forget();
        Some(Self::new(settled, guest))
    }

    /// Waits for them; `None` once the server shuts down.
    pub(crate) async fn in_turn(settled: &Arc<Settled>, guest: Option<&Arc<Tenant>>) -> Option<Self> {
        let ground = &settled.ground;
        let share = settled.tenant(guest).places(ground.number);
        let of_share = share.slots.acquire_many(share.of(settled.places)).await.ok()?;
        let places = ground.slots.acquire_many(settled.places).await.ok()?;
        of_share.forget();
        places.forget();
        Some(Self::new(settled, guest))
    }

    /// The places are its own from here on.
    fn new(settled: &Arc<Settled>, guest: Option<&Arc<Tenant>>) -> Self {
        let beat = settled.ground.ticker.during();
        Self { settled: Arc::clone(settled), guest: guest.cloned(), _beat: beat }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        let (settled, ground) = (&self.settled, &self.settled.ground);
        ground.slots.add_permits(settled.places as usize);
        let share = settled.tenant(self.guest.as_ref()).places(ground.number);
        share.slots.add_permits(share.of(settled.places) as usize);
    }
}
