//! Slots: the parts of a sandbox that later ones reuse. Ids and user namespace serve any sandbox, cgroup and
//! network namespace only those with the same key.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;

use super::users;
use crate::cgroup::Leaf;
use crate::net::SandboxNet;
use crate::spec::Network;

/// The reusable parts of one sandbox.
pub(super) struct Slot {
    number: u32,
    pub(super) users: OwnedFd,
    pub(super) leaf: Option<Leaf>,
    pub(super) net: Option<SandboxNet>,
}

/// The recycle key and kind of network under which cgroup and network namespace are reused.
type Key = (String, Network);

/// The slots without a sandbox.
pub(super) struct Slots {
    idle: HashMap<Key, Vec<Slot>>,
    /// Keys in the order in which slots became idle, for eviction.
    order: VecDeque<Key>,
    limit: usize,
    blank: Vec<(u32, OwnedFd)>,
    made: u32,
    uid_base: u32,
    rootless: bool,
}

impl Slots {
    pub(super) fn new(limit: usize, uid_base: u32, rootless: bool) -> Self {
        Self {
            idle: HashMap::new(),
            order: VecDeque::new(),
            limit,
            blank: Vec::new(),
            made: 0,
            uid_base,
            rootless,
        }
    }

    /// An idle slot of the same key, or a blank one.
    pub(super) fn take(&mut self, key: Option<&str>, network: Network) -> io::Result<Slot> {
        if let Some(key) = key {
            let key = (key.to_owned(), network);
            if let Some(slot) = self.idle.get_mut(&key).and_then(Vec::pop) {
                if let Some(at) = self.order.iter().rposition(|other| *other == key) {
                    self.order.remove(at);
                }
                return Ok(slot);
            }
        }
        let (number, users) = match self.blank.pop() {
            Some(blank) => blank,
            None => {
                let number = self.made;
                // Without root there is only one uid.
                let own = (!self.rootless).then(|| self.payload_uid(number));
                let users = users::namespace(own.unwrap_or(0), own)?;
                self.made += 1;
                (number, users)
            }
        };
        Ok(Slot { number, users, leaf: None, net: None })
    }

    /// Keeps a slot under its key; returns the parts that have to be removed to make room.
    pub(super) fn keep(
        &mut self,
        key: String,
        network: Network,
        slot: Slot,
    ) -> Option<(Option<Leaf>, Option<SandboxNet>)> {
        if self.limit == 0 {
            return Some(self.blank(slot));
        }
        let key = (key, network);
        self.order.push_back(key.clone());
        self.idle.entry(key).or_default().push(slot);
        if self.order.len() <= self.limit {
            return None;
        }
        let oldest = self.order.pop_front()?;
        let slots = self.idle.get_mut(&oldest)?;
        let evicted = (!slots.is_empty()).then(|| slots.remove(0));
        if slots.is_empty() {
            self.idle.remove(&oldest);
        }
        evicted.map(|slot| self.blank(slot))
    }

    /// Takes cgroup and network namespace out of a slot; the rest serves any sandbox.
    pub(super) fn blank(&mut self, slot: Slot) -> (Option<Leaf>, Option<SandboxNet>) {
        self.blank.push((slot.number, slot.users));
        (slot.leaf, slot.net)
    }

    /// The host uid and gid of a sandbox's pid 1, one below its payload's. `None` without root, where there
    /// is only the server's own.
    pub(super) fn init_uid(&self, slot: &Slot) -> Option<u32> {
        (!self.rootless).then(|| self.payload_uid(slot.number) - 1)
    }

    fn payload_uid(&self, number: u32) -> u32 {
        self.uid_base + 2 * number + 1
    }
}
