//! Functions: reading, listing, deleting.

use std::sync::Arc;

use bytes::Bytes;
use flint_model::{EntityName, Function, FunctionPath, NamespaceName, Strategy};
use flint_store::Page;

use crate::{Caller, Controller, ControllerError, callable::Callable, strategy};

impl Controller {
    /// A function.
    pub async fn function(
        &self,
        caller: &Caller,
        path: &FunctionPath,
    ) -> Result<Arc<Function>, ControllerError> {
        Ok(Arc::clone(&self.callable(caller, path).await?.function))
    }

    /// A function, ready to be called.
    pub(crate) async fn callable(
        &self,
        caller: &Caller,
        path: &FunctionPath,
    ) -> Result<Arc<Callable>, ControllerError> {
        // A foreign function is not even looked for, so that the answer does not tell whether it is there.
        own(caller, &path.namespace, || path.to_string())?;
        self.load(path).await?.ok_or(ControllerError::NotFound)
    }

    /// From memory, or from the catalog.
    pub(crate) async fn load(&self, path: &FunctionPath) -> Result<Option<Arc<Callable>>, ControllerError> {
        let began = match self.functions.get(path) {
            Ok(callable) => return Ok(Some(callable)),
            Err(began) => began,
        };
        let Some(function) = self.stores.catalog.function(path).await? else { return Ok(None) };
        let function = self.fit(function).await;
        let callable = Arc::new(Callable::new(function, &self.metrics));
        self.functions.insert(path.clone(), Arc::clone(&callable), began);
        Ok(Some(callable))
    }

    /// The function as this host can run it: what was chosen for it when it was deployed, perhaps on another host, is chosen anew
    /// where this one lacks that. What its user asked for stays.
    async fn fit(&self, mut function: Function) -> Function {
        if function.asked.start.is_some() {
            return function;
        }
        let capabilities = self.capabilities().await;
        let lacks =
            |strategy: &Strategy| self.lacking(capabilities, strategy, function.contract, &function.kind);
        let Some(missing) = lacks(&function.strategy) else { return function };
        let strategy = strategy::chosen_anew(&function, lacks);
        if lacks(&strategy).is_none() {
            tracing::info!(function = %function.path, %strategy, %missing, "runs otherwise than where it was deployed");
            function.strategy = strategy;
        }
        function
    }

    /// A function's code, as it was stored.
    pub async fn code(&self, function: &Function) -> Result<Bytes, ControllerError> {
        let code = self.stores.blobs.get(function.code.digest).await?;
        code.ok_or_else(|| {
            let (path, digest) = (&function.path, function.code.digest);
            ControllerError::Internal(format!("the code of {path} ({digest}) is not in the blob store"))
        })
    }

    /// The functions of a namespace, latest first; with `package`, only those in it.
    pub async fn functions(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
        page: Page,
    ) -> Result<Vec<Function>, ControllerError> {
        own(caller, namespace, || namespace.to_string())?;
        Ok(self.stores.catalog.functions(namespace, package, page).await?)
    }

    /// How many those are.
    pub async fn count_functions(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
    ) -> Result<usize, ControllerError> {
        own(caller, namespace, || namespace.to_string())?;
        Ok(self.stores.catalog.count_functions(namespace, package).await?)
    }

    /// Deletes a function and gives what it was.
    pub async fn delete_function(
        self: &Arc<Self>,
        caller: &Caller,
        path: &FunctionPath,
    ) -> Result<Arc<Function>, ControllerError> {
        let function = self.function(caller, path).await?;
        let (controller, path, revision) = (Arc::clone(self), path.clone(), function.revision);
        let deleting = async move {
            controller.stores.catalog.delete_function(&path, revision).await?;
            controller.functions.remove(&path);
            controller.invoker.forget(&path, revision);
            tracing::info!(function = %path, "deleted");
            Ok(function)
        };
        self.detached(deleting).await
    }
}

/// Everything is allowed in one's own namespace and nothing elsewhere; `what` names what was asked for.
pub(crate) fn own(
    caller: &Caller,
    namespace: &NamespaceName,
    what: impl FnOnce() -> String,
) -> Result<(), ControllerError> {
    match caller.namespace.name == *namespace {
        true => Ok(()),
        false => Err(ControllerError::Forbidden(what())),
    }
}
