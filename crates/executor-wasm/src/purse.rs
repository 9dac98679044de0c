//! The memory that one call has taken of the server's.

use std::sync::Arc;

use crate::{limits::Starved, settled::Settled, tenant::Tenant};

/// What a call has taken; given back when it is dropped.
pub(crate) struct Purse {
    settled: Arc<Settled>,
    /// The caller's namespace, if the function is another's.
    guest: Option<Arc<Tenant>>,
    taken: usize,
}

impl Purse {
    pub(crate) fn new(settled: &Arc<Settled>, guest: Option<Arc<Tenant>>) -> Self {
        Self { settled: Arc::clone(settled), guest, taken: 0 }
    }

    /// Takes so many bytes more, or says who has no more.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), Starved> {
        let (ground, tenant) = (&self.settled.ground, self.settled.tenant(self.guest.as_ref()));
        if !tenant.memory.take(ground.number, bytes) {
            return Err(Starved::InItsNamespace);
        }
        if !ground.memory.take(ground.number, bytes) {
            tenant.memory.give_back(ground.number, bytes);
            return Err(Starved::InTheServer);
        }
        self.taken += bytes;
        Ok(())
    }

    /// Gives back so many of those that it has taken.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        let ground = &self.settled.ground;
        self.settled.tenant(self.guest.as_ref()).memory.give_back(ground.number, bytes);
        ground.memory.give_back(ground.number, bytes);
        self.taken -= bytes;
    }
}

impl Drop for Purse {
    fn drop(&mut self) {
        self.give_back(self.taken);
    }
}
