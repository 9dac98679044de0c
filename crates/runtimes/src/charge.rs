//! Charges a namespace for files on disk that the house does not keep itself.

use flint_executor::PrepareError;

use crate::prepare::Claim;

/// Bytes charged to a namespace's quota, like its unpacked code, until this is dropped.
#[derive(Debug)]
pub struct Charge(pub(crate) Claim);

impl Charge {
    /// Charges `bytes` more, before they are written.
    ///
    /// # Errors
    /// The namespace would exceed its quota.
    pub fn take(&self, bytes: u64) -> Result<(), PrepareError> {
        self.0.take(bytes)
    }

    /// Charges `bytes` more for files that existed before accounting began. Never refused.
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
        // A count of what the house keeps does not affect it.
        quota.count(Vec::new(), Vec::new);
        assert!(matches!(new.take(1), Err(PrepareError::OverQuota(_))));
        drop(old);
        new.take(10).unwrap();
        drop(new);
        charge("another").take(10).unwrap();
    }
}
