//! Web actions: anybody may call them by their address, on their owner's account.

use std::sync::Arc;

use flint_model::{ActivationId, Annotations, Contract, FunctionPath};

use crate::{
    Caller, Controller, ControllerError, ErrorKind,
    resolve::{Callee, Resolved, Right},
};

/// A web action, resolved for one call.
pub struct Exported {
    /// Its owner, as the caller on whose account it runs.
    pub owner: Caller,
    /// The call it is resolved for: among weighted versions, this id selects one.
    pub(crate) id: ActivationId,
    pub(crate) resolved: Arc<Resolved>,
}

impl Exported {
    /// Its annotations.
    pub fn annotations(&self) -> &Annotations {
        match &self.resolved.callee {
            Callee::Function(callable) => &callable.function.annotations,
            Callee::Sequence(sequence) => &sequence.annotations,
        }
    }

    /// Whether an annotation is literally `true`, not merely truthy.
    pub fn is(&self, annotation: &str) -> bool {
        self.annotations().get(annotation).and_then(|value| value.as_bool()).unwrap_or(false)
    }

    /// Whether it speaks raw HTTP: it takes the request and gives the response.
    pub fn speaks_http(&self) -> bool {
        match &self.resolved.callee {
            Callee::Function(callable) => {
                matches!(
                    callable.function.contract,
                    Contract::Http | Contract::WasiHttp | Contract::AfterBurn
                )
            }
            Callee::Sequence(_) => false,
        }
    }
}

impl Controller {
    /// The web action at `path` (annotation `web-export`). `None` for whatever reason there is none, so that
    /// the answer does not disclose what exists.
    pub async fn exported(&self, path: &FunctionPath) -> Result<Option<Exported>, ControllerError> {
        let Some(owner) = self.owner(&path.namespace).await? else { return Ok(None) };
        let resolved = match self.resolve(&owner, path, Right::Activate).await {
            Ok(resolved) => resolved,
            Err(error) if tells_of_what_is_there(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        if resolved.named.is_some() {
            // Bare names only: the request acts for the owner, and must not choose among kept versions.
            return Ok(None);
        }
        let id = ActivationId::generate();
        let exported = Exported { owner, id, resolved: resolved.pick(id) };
        Ok(exported.is("web-export").then_some(exported))
    }
}

/// Whether an error is about the entity at a path, rather than about the server.
fn tells_of_what_is_there(error: &ControllerError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::Forbidden
            | ErrorKind::Conflict
            | ErrorKind::Invalid
            | ErrorKind::Unprocessable
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_an_owners_entities_is_not_told_and_what_is_wrong_with_the_server_is() {
        let path = || "guest/p".to_owned();
        for hidden in [
            ControllerError::NotFound,
            ControllerError::NoSuch(path()),
            ControllerError::Forbidden(path()),
            ControllerError::OtherCollection,
            ControllerError::CircularBinding(path()),
        ] {
            assert!(tells_of_what_is_there(&hidden), "{hidden:?}");
        }
        for told in [ControllerError::ShuttingDown, ControllerError::Internal("a disk".to_owned())] {
            assert!(!tells_of_what_is_there(&told), "{told:?}");
        }
    }
}
