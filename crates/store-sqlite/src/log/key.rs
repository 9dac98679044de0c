//! The sort key of records within a namespace.

use flint_model::{ActivationId, Timestamp};
use serde::{Deserialize, Serialize};

/// Start, then id: the order of lists, oldest first. (The id as two halves: a `u128` would pad every entry by
/// 8 bytes.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Key {
    /// When the record's activation started, in ms since the epoch.
    pub(crate) start: u64,
    high: u64,
    low: u64,
}

impl Key {
    pub(crate) const BYTES: usize = 24;
    /// The least key.
    pub(crate) const MIN: Self = Self { start: 0, high: 0, low: 0 };

    pub(crate) const fn new(start: u64, id: u128) -> Self {
        Self { start, high: (id >> 64) as u64, low: id as u64 }
    }

    pub(crate) fn of(start: Timestamp, id: ActivationId) -> Self {
        Self::new(start.as_millis(), id.as_u128())
    }

    pub(crate) const fn id(self) -> u128 {
        (self.high as u128) << 64 | self.low as u128
    }

    /// The least key greater than this; `None` after the last.
    pub(crate) const fn next(self) -> Option<Self> {
        match (self.id().checked_add(1), self.start.checked_add(1)) {
            (Some(id), _) => Some(Self::new(self.start, id)),
            (None, Some(start)) => Some(Self::new(start, 0)),
            (None, None) => None,
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.start.to_be_bytes());
        bytes[8..].copy_from_slice(&self.id().to_be_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let number =
            |at: usize| bytes[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        Self { start: number(0), high: number(8), low: number(16) }
    }
}
