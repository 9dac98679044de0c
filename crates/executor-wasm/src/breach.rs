//! Whether a caller's request broke off.

use std::sync::{Arc, OnceLock};

use flint_executor::{BodyError, Fault};

/// The error with which a request's body broke off, if it did. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Breach(Arc<OnceLock<BodyError>>);

impl Breach {
    /// Records the error; the first one counts.
    pub(crate) fn set(&self, error: BodyError) {
        let _ = self.0.set(error);
    }

    pub(crate) fn get(&self) -> Option<&BodyError> {
        self.0.get()
    }

    /// The fault of a failed call. If its request broke off and the function failed, the fault is the
    /// caller's; limits and platform errors keep their own cause.
    pub(crate) fn or(&self, fault: Fault) -> Fault {
        match (self.get(), &fault) {
            (Some(error), Fault::Developer { .. }) => Fault::Request(error.clone()),
            _ => fault,
        }
    }
}
