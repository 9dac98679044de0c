//! The limits of one instance.

use wasmtime::{ResourceLimiter, Result};

/// More than any toolchain puts into one component.
pub(crate) const INSTANCES: usize = 512;
const TABLES: usize = 512;
const MEMORIES: usize = 64;

/// Limits the total of an instance's memories and each of its tables, and records the memory used.
#[derive(Debug)]
pub(crate) struct Limits {
    memory: usize,
    table_elements: usize,
    used: usize,
    /// Whether memory was requested and refused.
    pub(crate) refused: bool,
}

impl Limits {
    pub(crate) const fn new(memory: usize, table_elements: usize) -> Self {
        Self { memory, table_elements, used: 0, refused: false }
    }

    /// Total size of all memories in bytes, which never shrink.
    pub(crate) const fn used(&self) -> usize {
        self.used
    }
}

impl ResourceLimiter for Limits {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        // A 64-bit memory may ask for the whole address space.
        let after = self.used.saturating_add(desired.saturating_sub(current));
        if after > self.memory {
            self.refused = true;
            return Ok(false);
        }
        // Beyond its own maximum it will not grow, so nothing is used.
        if maximum.is_none_or(|maximum| desired <= maximum) {
            self.used = after;
        }
        Ok(true)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        Ok(desired <= self.table_elements)
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
        let mut limits = Limits::new(100, 10);
        assert!(limits.memory_growing(0, 60, None).unwrap());
        assert!(limits.memory_growing(0, 40, None).unwrap());
        assert!(!limits.refused);
        assert!(!limits.memory_growing(40, 41, None).unwrap());
        assert_eq!((limits.used(), limits.refused), (100, true));
        assert!(!limits.memory_growing(60, usize::MAX, None).unwrap());
        assert_eq!(limits.used(), 100);
        assert!(limits.table_growing(0, 10, None).unwrap());
        assert!(!limits.table_growing(0, 11, None).unwrap());
    }
}
