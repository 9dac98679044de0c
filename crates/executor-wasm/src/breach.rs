//! Whether a caller's request came whole.

use std::sync::{Arc, OnceLock};

use flint_executor::{BodyError, Fault};

/// The word that a request's body broke off. Clones are handles of the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Breach(Arc<OnceLock<BodyError>>);

impl Breach {
    /// The first word counts.
    pub(crate) fn set(&self, error: BodyError) {
        let _ = self.0.set(error);
    }

    pub(crate) fn get(&self) -> Option<&BodyError> {
        self.0.get()
    }

    /// Of a call that came to nothing: the caller's fault when its request did not come whole, else this one.
    pub(crate) fn or(&self, fault: impl FnOnce() -> Fault) -> Fault {
        self.get().cloned().map_or_else(fault, Fault::Request)
    }
}
