//! The limits of one instance.

use wasmtime::{ResourceLimiter, Result};

use crate::{
    pool::{self, MOST_PLACES},
    purse::Purse,
};

/// More than any toolchain puts into one component.
pub(crate) const INSTANCES: usize = 512;
/// What the places that an instance may take have room for.
const MEMORIES: usize = MOST_PLACES as usize;
const TABLES: usize = (MOST_PLACES * pool::TABLES) as usize;
/// What an element of a table takes, in bytes.
const ELEMENT: usize = 8;

/// Whether an instance was refused memory, and for what reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Starved {
    #[default]
    Not,
    /// It has as much as its function may have.
    InItself,
    /// The instances of its namespace have all that they may have together.
    InItsNamespace,
    /// All instances together have all that there is.
    InTheServer,
}

/// Limits the total of an instance's memories and each of its tables, and records the memory used.
pub(crate) struct Limits {
    memory: usize,
    table_elements: usize,
    used: usize,
    /// Its part of the server's memory; `None` in a process of its own.
    purse: Option<Purse>,
    /// Whether memory was requested and refused.
    pub(crate) starved: Starved,
}

impl Limits {
    pub(crate) const fn new(memory: usize, table_elements: usize, purse: Option<Purse>) -> Self {
        Self { memory, table_elements, used: 0, purse, starved: Starved::Not }
    }

    /// Total size of all memories in bytes, which never shrink.
    pub(crate) const fn used(&self) -> usize {
        self.used
    }

    fn take(&mut self, bytes: usize) -> bool {
        match self.purse.as_mut().map_or(Ok(()), |purse| purse.take(bytes)) {
            Ok(()) => true,
            Err(starved) => {
                self.starved = starved;
                false
            }
        }
    }
}

impl ResourceLimiter for Limits {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        let more = desired.saturating_sub(current);
        // A 64-bit memory may ask for the whole address space.
        let after = self.used.saturating_add(more);
        if after > self.memory {
            self.starved = Starved::InItself;
            return Ok(false);
        }
        // Beyond its own maximum it will not grow, so nothing is used.
        if maximum.is_none_or(|maximum| desired <= maximum) {
            if !self.take(more) {
                return Ok(false);
            }
            self.used = after;
        }
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        if desired > self.table_elements {
            return Ok(false);
        }
        let grows = maximum.is_none_or(|maximum| desired <= maximum);
        Ok(!grows || self.take(desired.saturating_sub(current) * ELEMENT))
    }

    fn instances(&self) -> usize {
        INSTANCES
    }

    fn tables(&self) -> usize {
        TABLES
    }

    fn memories(&self) -> usize {
        MEMORIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_are_counted_together() {
        let mut limits = Limits::new(100, 10, None);
        assert!(limits.memory_growing(0, 60, None).unwrap());
        assert!(limits.memory_growing(0, 40, None).unwrap());
        assert_eq!(limits.starved, Starved::Not);
        assert!(!limits.memory_growing(40, 41, None).unwrap());
        assert_eq!((limits.used(), limits.starved), (100, Starved::InItself));
        assert!(!limits.memory_growing(60, usize::MAX, None).unwrap());
        assert_eq!(limits.used(), 100);
        assert!(limits.table_growing(0, 10, None).unwrap());
        assert!(!limits.table_growing(0, 11, None).unwrap());
    }
}
