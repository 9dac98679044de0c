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

    /// Of a call that came to nothing by this fault: the caller's, when its request did not come whole and the function failed over it.
    /// A limit that was passed, and what Flint could not do, have causes of their own.
    pub(crate) fn or(&self, fault: Fault) -> Fault {
        match (self.get(), &fault) {
            (Some(error), Fault::Developer { .. }) => Fault::Request(error.clone()),
            _ => fault,
        }
    }
}
