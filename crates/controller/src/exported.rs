//! Actions that are open to the web: anybody may call them by their address, on their owner's account.

use std::sync::Arc;

use flint_model::{ActivationId, Annotations, Contract, FunctionPath};

use crate::{
    Caller, Controller, ControllerError, ErrorKind,
    resolve::{Callee, Resolved, Right},
};

/// An action that is open to the web.
pub struct Exported {
    /// Whoever it belongs to, as the caller on whose account it runs.
    pub owner: Caller,
    /// The call that is going to be made of it: where a name stands for several versions, that decides.
    pub(crate) id: ActivationId,
    pub(crate) resolved: Arc<Resolved>,
}

impl Exported {
    /// What is known about it.
    pub fn annotations(&self) -> &Annotations {
        match &self.resolved.callee {
            Callee::Function(callable) => &callable.function.annotations,
            Callee::Sequence(sequence) => &sequence.annotations,
        }
    }

    /// Whether an annotation is `true`, and not only something that counts as that.
    pub fn is(&self, annotation: &str) -> bool {
        self.annotations().get(annotation).and_then(|value| value.as_bool()).unwrap_or(false)
    }

    /// Whether it speaks HTTP itself: it takes the request as it is and gives the answer.
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
    /// The action at `path` if it is open to the web (annotation `web-export`). `None` whatever it lacks for that, so that the
    /// answer does not tell.
    pub async fn exported(&self, path: &FunctionPath) -> Result<Option<Exported>, ControllerError> {
        let Some(owner) = self.owner(&path.namespace).await? else { return Ok(None) };
        let resolved = match self.resolve(&owner, path, Right::Activate).await {
            Ok(resolved) => resolved,
            Err(error) if tells_of_what_is_there(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        if resolved.named.is_some() {
            // By its name alone: who asks acts for its owner here, and is not to choose among what that has left behind.
            return Ok(None);
        }
        let id = ActivationId::generate();
        let exported = Exported { owner, id, resolved: resolved.pick(id) };
        Ok(exported.is("web-export").then_some(exported))
    }
}

/// Whether an error is about what is at a path, rather than about the server.
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
