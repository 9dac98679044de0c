//! What a namespace takes of the disk with files that others than the house keep.

use flint_executor::PrepareError;

use crate::prepare::Claim;

/// Bytes that a namespace is charged with as with its unpacked code, until this is dropped.
#[derive(Debug)]
pub struct Charge(pub(crate) Claim);

impl Charge {
    /// So many bytes more are written.
    ///
    /// # Errors
    /// The namespace has as much there as it may.
    pub fn take(&self, bytes: u64) -> Result<(), PrepareError> {
        self.0.take(bytes)
    }

    /// So many bytes more, which were there before anybody counted: they are never refused.
    pub fn add(&self, bytes: u64) {
        self.0.add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use flint_model::{ByteSize, NamespaceName};

    use super::*;
    use crate::prepare::Quota;

    #[test]
    fn what_was_there_before_counts_and_is_not_refused_and_all_of_it_is_given_back() {
        let guest: NamespaceName = "guest".parse().unwrap();
        let quota = Quota::new(ByteSize::bytes(10));
        let charge = |address| Charge(quota.claim(&guest, address));
        let old = charge("old");
        old.add(20);
        let new = charge("new");
        assert!(matches!(new.take(1), Err(PrepareError::OverQuota(_))));
        // A count of what the house keeps leaves it alone.
        quota.count(Vec::new(), Vec::new);
        assert!(matches!(new.take(1), Err(PrepareError::OverQuota(_))));
        drop(old);
        new.take(10).unwrap();
        drop(new);
        charge("another").take(10).unwrap();
    }
}
