//! Part of a list.

/// `limit` items after the first `skip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// How many items to leave out.
    pub skip: usize,
    /// How many to give at most.
    pub limit: usize,
}
