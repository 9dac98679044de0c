//! Packages and bindings: actions shared under a name and with parameters.

use std::sync::Arc;

use flint_model::{
    Annotations, ByteSize, Collection, Entity, EntityPath, NamespaceName, Package, Parameters, Timestamp,
    Version,
};
use flint_store::{Expected, Page, StoreError};
use serde_json::json;

use crate::{Caller, Controller, ControllerError, functions::own, versions::next_version};

/// A name reserved by the API for actions without a package.
const RESERVED: &str = "default";

/// The annotation that names a binding's provider, for clients that only see lists.
const BINDING: &str = "binding";

const ALL: Page = Page { skip: 0, limit: usize::MAX };

/// A write of a package. An absent field keeps its old value, or gets its default in a new package.
#[derive(Clone, Debug, Default)]
pub struct PutPackage {
    /// Replace what is there.
    pub overwrite: bool,
    /// The provider, for a binding.
    pub binding: Option<EntityPath>,
    /// Default arguments; replace all old ones.
    pub parameters: Option<Parameters>,
    /// Replace all old ones.
    pub annotations: Option<Annotations>,
    /// Whether everybody may use it.
    pub publish: Option<bool>,
    /// The version; by default the old one with its last number incremented.
    pub version: Option<Version>,
}

/// A package and its actions; for a binding, those of its provider.
#[derive(Clone, Debug)]
pub struct PackageContents {
    /// The package. A binding's parameters include its provider's.
    pub package: Package,
    /// Functions and sequences without their parameters, latest first.
    pub actions: Vec<Entity>,
}

impl Controller {
    /// Creates or overwrites a package or binding.
    pub async fn put_package(
        self: &Arc<Self>,
        caller: &Caller,
        path: EntityPath,
        put: PutPackage,
    ) -> Result<Package, ControllerError> {
        own(caller, &path.namespace, || path.to_string())?;
        if path.name.as_str() == RESERVED {
            return Err(ControllerError::Invalid(format!("Package name '{RESERVED}' is reserved.")));
        }
        let provider = match &put.binding {
            Some(provider) => Some(self.bindable(caller, provider).await?),
            None => None,
        };
        let old = self.package_at(&path).await?;
        let expected = match &old {
            Some(_) if !put.overwrite => return Err(ControllerError::Exists),
            Some(old) => Expected::Revision(old.revision),
            None => Expected::Absent,
        };
        match (&old, &provider) {
            (Some(Package { binding: None, .. }), Some(_)) => {
                let text = "Resource is a package and cannot be converted into a binding.";
                return Err(ControllerError::Conflicting(text.to_owned()));
            }
            (_, Some(Package { binding: Some(_), .. })) => {
                return Err(ControllerError::Invalid("Cannot bind to another package binding.".to_owned()));
            }
            _ => {}
        }
        let package = drafted(path, put, old)?;
        Self::check_sizes(caller, Some(&package.parameters), &package.annotations)?;
        let (controller, caller) = (Arc::clone(self), caller.clone());
        let writing = async move {
            let revision = controller.write_entity(&caller, &package.clone().into(), expected).await?;
            controller.forget_package(&package.path());
            Ok(Package { revision, ..package })
        };
        self.detached(writing).await
    }

    /// A package that the caller may bind to; a binding cannot be bound to.
    async fn bindable(&self, caller: &Caller, provider: &EntityPath) -> Result<Package, ControllerError> {
        let foreign = provider.namespace != caller.namespace.name;
        let found = self.package_at(provider).await;
        let forbidden = || Err(ControllerError::Forbidden(provider.to_string()));
        match found {
            Ok(Some(package)) if foreign && !package.is_shared() => forbidden(),
            Ok(Some(package)) => Ok(package),
            Ok(None) | Err(ControllerError::OtherCollection) if foreign => forbidden(),
            Ok(None) => {
                let text = "Binding references a package that does not exist.";
                Err(ControllerError::Invalid(text.to_owned()))
            }
            Err(ControllerError::OtherCollection) => {
                let text = "Cannot bind to a resource that is not a package.";
                Err(ControllerError::Conflicting(text.to_owned()))
            }
            Err(error) => Err(error),
        }
    }

    /// A package with its actions. Packages of others must be published; a binding is visible to its owner
    /// only. [`ControllerError::PackageTooLarge`] when the actions exceed `most` as JSON.
    pub async fn package(
        &self,
        caller: &Caller,
        path: &EntityPath,
        most: ByteSize,
    ) -> Result<PackageContents, ControllerError> {
        let (package, contents) = self.readable_package(caller, path).await?;
        let (namespace, within) = (&contents.namespace, Some(&contents.name));
        let list = self.stores.catalog.entities(namespace, Collection::Actions, within, ALL, most);
        let actions = list.await.map_err(|error| match error {
            StoreError::ListTooLarge { allowed } => {
                ControllerError::PackageTooLarge { package: path.clone(), allowed }
            }
            other => other.into(),
        })?;
        Ok(PackageContents { package, actions })
    }

    /// A package as the caller sees it, and where its actions are: in itself or in its provider.
    pub(crate) async fn readable_package(
        &self,
        caller: &Caller,
        path: &EntityPath,
    ) -> Result<(Package, EntityPath), ControllerError> {
        let who = &caller.namespace.name;
        let foreign = path.namespace != *who;
        let found = self.package_at(path).await;
        let mut package = match found {
            Ok(Some(package)) if !foreign || package.is_shared() => package,
            Ok(None) if !foreign => return Err(ControllerError::NotFound),
            Err(error) if !foreign => return Err(error),
            _ => return Err(ControllerError::Forbidden(path.to_string())),
        };
        let Some(provider) = &package.binding else { return Ok((package, path.clone())) };
        let provider = self.provider_of(who, &package, provider).await?;
        if provider.namespace != *who && !provider.publish {
            return Err(ControllerError::Forbidden(provider.path().to_string()));
        }
        package.parameters = package.parameters.over(&provider.parameters);
        Ok((package, provider.path()))
    }

    /// Deletes and returns a package; with `force`, together with its actions.
    pub async fn delete_package(
        self: &Arc<Self>,
        caller: &Caller,
        path: &EntityPath,
        force: bool,
    ) -> Result<Package, ControllerError> {
        own(caller, &path.namespace, || path.to_string())?;
        let package = self.package_at(path).await?.ok_or(ControllerError::NotFound)?;
        let (controller, path) = (Arc::clone(self), path.clone());
        let deleting = async move {
            // No action can be written into it meanwhile.
            let _structure = controller.structure.write().await;
            let catalog = &controller.stores.catalog;
            let (namespace, within) = (&path.namespace, Some(&path.name));
            // Counted, not read: all writes wait for this.
            let held = match force {
                true => 0,
                false => catalog.count_entities(namespace, Collection::Actions, within).await?,
            };
            if held > 0 {
                return Err(ControllerError::Conflicting(not_empty(held)));
            }
            let functions = catalog.function_revisions(namespace, within).await?;
            catalog.delete_package(&path, package.revision, force).await?;
            controller.forget_package(&path);
            for (function, revision) in functions {
                controller.invoker.forget(&function, revision, &[]);
                controller.metrics.forget(function.namespace.as_str(), &function.local());
            }
            Ok(package)
        };
        self.detached(deleting).await
    }

    /// The packages of a namespace without their parameters, latest first; of another namespace, only
    /// published ones. [`ControllerError::ListTooLarge`] when they exceed `most` as JSON.
    pub async fn packages(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
        page: Page,
        most: ByteSize,
    ) -> Result<Vec<Package>, ControllerError> {
        let catalog = &self.stores.catalog;
        if caller.namespace.name != *namespace {
            return Ok(catalog.shared_packages(namespace, page, most).await?);
        }
        let listed = catalog.entities(namespace, Collection::Packages, None, page, most).await?;
        let package = |entity| match entity {
            Entity::Package(package) => Some(package),
            _ => None,
        };
        Ok(listed.into_iter().filter_map(package).collect())
    }

    /// The number of packages in such a list.
    pub async fn count_packages(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
    ) -> Result<usize, ControllerError> {
        let catalog = &self.stores.catalog;
        Ok(match caller.namespace.name == *namespace {
            true => catalog.count_entities(namespace, Collection::Packages, None).await?,
            false => catalog.count_shared_packages(namespace).await?,
        })
    }

    /// Whether an action may be written or deleted in a package: it must exist and not be a binding.
    pub(crate) async fn check_package(&self, package: Option<EntityPath>) -> Result<(), ControllerError> {
        let Some(path) = package else { return Ok(()) };
        match self.package_at(&path).await? {
            None => Err(ControllerError::NoSuch(path.to_string())),
            Some(Package { binding: Some(_), .. }) => {
                Err(ControllerError::Invalid("Operation not permitted on package binding.".to_owned()))
            }
            Some(_) => Ok(()),
        }
    }
}

/// The package requested by a write.
fn drafted(path: EntityPath, put: PutPackage, old: Option<Package>) -> Result<Package, ControllerError> {
    let EntityPath { namespace, name } = path;
    let old = old.as_ref();
    let binding = put.binding.or_else(|| old.and_then(|old| old.binding.clone()));
    let mut annotations = put.annotations.or_else(|| Some(old?.annotations.clone())).unwrap_or_default();
    // Set by Flint, never by clients.
    annotations.remove(BINDING);
    if let Some(binding) = &binding {
        annotations.set(BINDING, json!({"name": binding.name, "namespace": binding.namespace}));
    }
    Ok(Package {
        namespace,
        name,
        version: next_version(put.version, old.map(|old| old.version))?,
        revision: 0, // the store chooses it
        publish: put.publish.or_else(|| Some(old?.publish)).unwrap_or_default(),
        annotations,
        parameters: put.parameters.or_else(|| Some(old?.parameters.clone())).unwrap_or_default(),
        binding,
        updated: Timestamp::now(),
    })
}

fn not_empty(count: usize) -> String {
    let entities = if count == 1 { "entity" } else { "entities" };
    format!("Package not empty (contains {count} {entities}). Set force param or delete package contents.")
}
