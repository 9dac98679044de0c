//! Actions, that is functions and sequences alike: reading, listing, deleting.

use std::sync::Arc;

use flint_model::{
    ByteSize, Collection, Entity, EntityName, Function, FunctionPath, NamespaceName, Parameters, Sequence,
};
use flint_store::Page;

use crate::{Caller, Controller, ControllerError, functions::own};

impl Controller {
    /// An action: a function with its inherited parameters, or a sequence.
    pub async fn action(&self, caller: &Caller, path: &FunctionPath) -> Result<Entity, ControllerError> {
        Ok(self.action_in_place(caller, path).await?.0)
    }

    /// The same, and the parameters of its place: those of its package and binding. A sequence does not use
    /// them, but is shown with them.
    pub async fn action_in_place(
        &self,
        caller: &Caller,
        path: &FunctionPath,
    ) -> Result<(Entity, Parameters), ControllerError> {
        let found = self.find(&caller.namespace.name, path).await?;
        let of_place = found.inherited.parameters;
        let mut action = found.entity.ok_or(ControllerError::NotFound)?;
        if let Entity::Function(function) = &mut action {
            function.parameters = function.parameters.over(&of_place);
        }
        Ok((action, of_place))
    }

    /// The action at a path that is about to be written; refused when the path holds another kind of entity.
    pub(crate) async fn action_at(&self, path: &FunctionPath) -> Result<Option<Entity>, ControllerError> {
        match self.stores.catalog.entity(&path.namespace, path.package.as_ref(), &path.name).await? {
            Some(entity) if entity.collection() != Collection::Actions => {
                Err(ControllerError::OtherCollection)
            }
            there => Ok(there),
        }
    }

    /// The actions of a namespace without their parameters, latest first; with `package`, only those in it.
    /// [`ControllerError::ListTooLarge`] when they exceed `most` as JSON.
    pub async fn actions(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
        page: Page,
        most: ByteSize,
    ) -> Result<Vec<Entity>, ControllerError> {
        let (namespace, package) = self.readable_list(caller, namespace, package).await?;
        let catalog = &self.stores.catalog;
        Ok(catalog.entities(&namespace, Collection::Actions, package.as_ref(), page, most).await?)
    }

    /// The sequences of a namespace, latest first. [`ControllerError::ListTooLarge`] when they exceed `most`
    /// as JSON.
    pub async fn sequences(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
        page: Page,
        most: ByteSize,
    ) -> Result<Vec<Sequence>, ControllerError> {
        own(caller, namespace, || namespace.to_string())?;
        Ok(self.stores.catalog.sequences(namespace, page, most).await?)
    }

    /// The number of actions in such a list.
    pub async fn count_actions(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
    ) -> Result<usize, ControllerError> {
        let (namespace, package) = self.readable_list(caller, namespace, package).await?;
        Ok(self.stores.catalog.count_entities(&namespace, Collection::Actions, package.as_ref()).await?)
    }

    /// Deletes and returns a function; a sequence of that name stays.
    pub async fn delete_function(
        self: &Arc<Self>,
        caller: &Caller,
        path: &FunctionPath,
    ) -> Result<Function, ControllerError> {
        match self.delete(caller, path, |action| matches!(action, Entity::Function(_))).await? {
            Entity::Function(function) => Ok(function),
            _ => Err(ControllerError::NoFunction(path.to_string())),
        }
    }

    /// Deletes and returns a sequence; a function of that name stays.
    pub async fn delete_sequence(
        self: &Arc<Self>,
        caller: &Caller,
        path: &FunctionPath,
    ) -> Result<Sequence, ControllerError> {
        match self.delete(caller, path, |action| matches!(action, Entity::Sequence(_))).await? {
            Entity::Sequence(sequence) => Ok(sequence),
            _ => Err(ControllerError::NoSequence(path.to_string())),
        }
    }

    /// Deletes and returns an action.
    pub async fn delete_action(
        self: &Arc<Self>,
        caller: &Caller,
        path: &FunctionPath,
    ) -> Result<Entity, ControllerError> {
        self.delete(caller, path, |_| true).await
    }

    /// Deletes an action if it is `wanted`; returns what is, or was, there.
    async fn delete(
        self: &Arc<Self>,
        caller: &Caller,
        path: &FunctionPath,
        wanted: impl Fn(&Entity) -> bool,
    ) -> Result<Entity, ControllerError> {
        own(caller, &path.namespace, || path.to_string())?;
        self.check_package(path.package_path()).await?;
        let action = self.action_at(path).await?.ok_or(ControllerError::NotFound)?;
        if !wanted(&action) {
            return Ok(action);
        }
        let (controller, path, revision) = (Arc::clone(self), path.clone(), action.revision());
        let deleting = async move {
            let catalog = &controller.stores.catalog;
            catalog.delete_entity(&path.namespace, path.package.as_ref(), &path.name, revision).await?;
            controller.forget_action(&path);
            controller.invoker.forget(&path, revision, &[]);
            controller.metrics.forget(path.namespace.as_str(), &path.local());
            tracing::info!(action = %path, "deleted");
            Ok(action)
        };
        self.detached(deleting).await
    }
}
