//! Functions: reading and listing.

use std::sync::Arc;

use bytes::Bytes;
use flint_model::{ByteSize, EntityName, EntityPath, Function, FunctionPath, NamespaceName, Strategy};
use flint_store::Page;

use crate::{
    Caller, Controller, ControllerError,
    callable::Callable,
    resolve::{Callee, Right},
    strategy, system,
};

impl Controller {
    /// A function.
    pub async fn function(
        &self,
        caller: &Caller,
        path: &FunctionPath,
    ) -> Result<Arc<Function>, ControllerError> {
        Ok(Arc::clone(&self.callable(caller, path, Right::Read).await?.function))
    }

    /// A function with everything its calls need.
    pub(crate) async fn callable(
        &self,
        caller: &Caller,
        path: &FunctionPath,
        right: Right,
    ) -> Result<Arc<Callable>, ControllerError> {
        match &self.resolve(caller, path, right).await?.callee {
            Callee::Function(callable) => Ok(Arc::clone(callable)),
            Callee::Sequence(_) => Err(ControllerError::NoFunction(path.to_string())),
        }
    }

    /// The function as this host can run it. Choices made at deploy, perhaps on another host, are made again
    /// where this host lacks them; explicit requests of the user stay.
    pub(crate) async fn fit(&self, mut function: Function) -> Function {
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

    /// A function's code, as stored.
    pub async fn code(&self, function: &Function) -> Result<Bytes, ControllerError> {
        if let Some(code) = system::code_of(function) {
            return Ok(Bytes::from_static(code.as_bytes()));
        }
        let code = self.stores.blobs.get(function.code.digest).await?;
        code.ok_or_else(|| {
            let (path, digest) = (&function.path, function.code.digest);
            ControllerError::Internal(format!("the code of {path} ({digest}) is not in the blob store"))
        })
    }

    /// The functions of a namespace without their parameters, latest first; with `package`, only those in it.
    /// [`ControllerError::ListTooLarge`] when they exceed `most` as JSON.
    pub async fn functions(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
        page: Page,
        most: ByteSize,
    ) -> Result<Vec<Function>, ControllerError> {
        let list = self.readable_list(caller, namespace, package).await?;
        Ok(self.stores.catalog.functions(&list.0, list.1.as_ref(), page, most).await?)
    }

    /// The number of functions in such a list.
    pub async fn count_functions(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
    ) -> Result<usize, ControllerError> {
        let list = self.readable_list(caller, namespace, package).await?;
        Ok(self.stores.catalog.count_functions(&list.0, list.1.as_ref()).await?)
    }

    /// Where the actions to be listed are: for a binding, in its provider.
    pub(crate) async fn readable_list(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
    ) -> Result<(NamespaceName, Option<EntityName>), ControllerError> {
        let Some(package) = package else {
            own(caller, namespace, || namespace.to_string())?;
            return Ok((namespace.clone(), None));
        };
        let path = EntityPath::new(namespace.clone(), package.clone());
        let (_, contents) = self.readable_package(caller, &path).await?;
        Ok((contents.namespace, Some(contents.name)))
    }
}

/// Allows everything in the caller's own namespace and nothing elsewhere; `what` names the request in the
/// error.
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
