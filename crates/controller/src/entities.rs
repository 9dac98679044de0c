//! Code shared by writes of packages, triggers and rules.

use flint_model::{Annotations, Entity, Parameters};
use flint_store::{Expected, StoreError};

use crate::{Caller, Controller, ControllerError, merge};

impl Controller {
    /// Writes an entity of the caller's. A concurrent creation is reported as such, not as a conflict of
    /// revisions.
    pub(crate) async fn write_entity(
        &self,
        caller: &Caller,
        entity: &Entity,
        expected: Expected,
    ) -> Result<u64, ControllerError> {
        let _namespace = self.hold_namespace(caller.account()).await?;
        self.stores.catalog.put_entity(entity, expected).await.map_err(|error| match error {
            StoreError::Conflict if expected == Expected::Absent => ControllerError::Exists,
            other => other.into(),
        })
    }

    /// Whether parameters and annotations are within their size limits.
    pub(crate) fn check_sizes(
        caller: &Caller,
        parameters: Option<&Parameters>,
        annotations: &Annotations,
    ) -> Result<(), ControllerError> {
        let allowed = caller.limits().bounds.max_parameters;
        merge::check_json("parameters", &parameters.unwrap_or(&Parameters::default()), allowed)?;
        merge::check_json("annotations", annotations, allowed)
    }
}
