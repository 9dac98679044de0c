//! Sequences as entities: creating, changing, checking.

use std::sync::Arc;

use flint_model::{
    Annotations, Entity, FunctionPath, LimitBounds, NamespaceName, Sequence, Timestamp, Version,
};
use flint_store::{Expected, StoreError};

use crate::{
    Caller, Controller, ControllerError, LimitsWish, functions::own, merge, resolve::Found,
    versions::next_version,
};

/// A write of a sequence. An absent field keeps its old value.
#[derive(Clone, Debug, Default)]
pub struct PutSequence {
    /// Replace an existing action; otherwise it is refused.
    pub overwrite: bool,
    /// Its actions in order. `_` is the caller's namespace.
    pub components: Option<Vec<FunctionPath>>,
    /// Merged key by key into the old ones.
    pub annotations: Annotations,
    /// Keys removed before that.
    pub remove_annotations: Vec<String>,
    /// Stored because clients set them.
    pub limits: LimitsWish,
    /// The version; by default the next one.
    pub version: Option<Version>,
    /// Stored because clients set it.
    pub publish: Option<bool>,
}

impl Controller {
    /// Creates or overwrites a sequence; a function of its name is replaced by it.
    pub async fn put_sequence(
        self: &Arc<Self>,
        caller: &Caller,
        path: FunctionPath,
        put: PutSequence,
    ) -> Result<Arc<Sequence>, ControllerError> {
        own(caller, &path.namespace, || path.to_string())?;
        self.check_package(path.package_path()).await?;
        let there = self.action_at(&path).await?;
        if there.is_some() && !put.overwrite {
            return Err(ControllerError::Exists);
        }
        let overwrite = put.overwrite;
        let old = match &there {
            Some(Entity::Sequence(old)) => Some(old),
            _ => None,
        };
        let components = match put.components {
            Some(components) => self.checked(caller, &path, components).await?,
            None => old.map(|old| old.components.clone()).ok_or(ControllerError::NoCode)?,
        };
        let known = match &there {
            Some(Entity::Sequence(old)) => Some((&old.annotations, &old.limits, old.version, old.publish)),
            Some(Entity::Function(old)) => Some((&old.annotations, &old.limits, old.version, old.publish)),
            _ => None,
        };
        let bounds = &caller.limits().bounds;
        let limits =
            merge::limits(known.map_or(&self.config.defaults, |(_, limits, ..)| limits), &put.limits)?;
        // Concurrency does not apply, since a sequence has no instances.
        LimitBounds { min_concurrency: 1, ..bounds.clone() }.check(&limits)?;
        let mut annotations =
            known.map_or_else(Annotations::default, |(annotations, ..)| annotations.clone());
        annotations.remove_all(&put.remove_annotations);
        annotations.merge(put.annotations);
        if known.is_none() && annotations.get("provide-api-key").is_none() {
            annotations.set("provide-api-key", false);
        }
        annotations.set("exec", "sequence");
        merge::check_json("annotations", &annotations, bounds.max_parameters)?;
        merge::check_annotations(&annotations)?;
        let sequence = Sequence {
            path,
            version: next_version(put.version, known.map(|(_, _, version, _)| version))?,
            revision: 0,
            publish: put.publish.or(known.map(|(.., publish)| publish)).unwrap_or_default(),
            annotations,
            components,
            limits,
            updated: Timestamp::now(),
        };
        let revision = there.as_ref().map(Entity::revision);
        let (controller, caller) = (Arc::clone(self), caller.clone());
        let entity = Entity::Sequence(sequence.clone());
        let writing = async move {
            // Keeps namespace and package until the sequence is written.
            let _structure = controller.hold_namespace(caller.account()).await?;
            controller.check_package(sequence.path.package_path()).await?;
            let expected = revision.map_or(Expected::Absent, Expected::Revision);
            let written = match controller.stores.catalog.put_entity(&entity, expected).await {
                Err(StoreError::Conflict) if !overwrite => return Err(ControllerError::Exists),
                other => other?,
            };
            controller.forget_action(&sequence.path);
            // It may have replaced a function.
            controller.invoker.forget(&sequence.path, written - 1, &[]);
            controller.metrics.forget(sequence.path.namespace.as_str(), &sequence.path.local());
            tracing::info!(sequence = %sequence.path, version = %sequence.version, "written");
            Ok(Arc::new(Sequence { revision: written, ..sequence }))
        };
        self.detached(writing).await
    }

    /// The components as stored: all must exist and be readable by the caller, there must not be too many,
    /// and the sequence must not contain itself, also not through other sequences and bindings.
    async fn checked(
        &self,
        caller: &Caller,
        path: &FunctionPath,
        mut components: Vec<FunctionPath>,
    ) -> Result<Vec<FunctionPath>, ControllerError> {
        let invalid = |text: &str| ControllerError::Invalid(text.to_owned());
        let too_many = || invalid("Too many actions in the sequence.");
        let own = &caller.namespace.name;
        let limit = self.config.limits.bounds.max_sequence as usize;
        if components.is_empty() {
            return Err(invalid("No component specified for the sequence."));
        }
        if components.len() > limit {
            return Err(too_many());
        }
        for component in &mut components {
            if component.namespace.as_str() == "_" {
                component.namespace = own.clone();
            }
        }
        let mut functions = 0;
        let mut ahead: Vec<_> = components.iter().rev().map(|component| (component.clone(), 1)).collect();
        while let Some((component, depth)) = ahead.pop() {
            let found = self.component(own, &component).await?;
            if component == *path || found.path == *path || depth > limit {
                return Err(invalid("Sequence may not refer to itself."));
            }
            match found.entity {
                None => return Err(invalid("Sequence component does not exist.")),
                Some(Entity::Sequence(inner)) => {
                    ahead.extend(inner.components.into_iter().rev().map(|inner| (inner, depth + 1)));
                }
                Some(_) => functions += 1,
            }
            if functions + ahead.len() > limit {
                return Err(too_many());
            }
        }
        Ok(components)
    }

    async fn component(&self, who: &NamespaceName, path: &FunctionPath) -> Result<Found, ControllerError> {
        self.find(who, path).await.map_err(|error| match error {
            ControllerError::NotFound
            | ControllerError::NoSuch(_)
            | ControllerError::NoProvider { .. }
            | ControllerError::OtherCollection => {
                ControllerError::Invalid("Sequence component does not exist.".to_owned())
            }
            error => error,
        })
    }
}
