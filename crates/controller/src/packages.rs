//! Packages and bindings: what is shared, and under which name and parameters.

use std::sync::Arc;

use flint_model::{
    Annotations, ByteSize, Collection, Entity, EntityPath, NamespaceName, Package, Parameters, Timestamp,
    Version,
};
use flint_store::{Expected, Page, StoreError};
use serde_json::json;

use crate::{Caller, Controller, ControllerError, functions::own, versions::next_version};

/// A name that the API keeps for the actions without a package.
const RESERVED: &str = "default";

/// The annotation in which a binding says what it stands for, for clients that see lists alone.
const BINDING: &str = "binding";

const ALL: Page = Page { skip: 0, limit: usize::MAX };

/// What a write of a package asks for. What is absent keeps its old value, or gets its default when the package is new.
#[derive(Clone, Debug, Default)]
pub struct PutPackage {
    /// Replace what is there.
    pub overwrite: bool,
    /// What it stands for.
    pub binding: Option<EntityPath>,
    /// Default arguments; replace all old ones.
    pub parameters: Option<Parameters>,
    /// Replace all old ones.
    pub annotations: Option<Annotations>,
    /// Whether everybody may use it.
    pub publish: Option<bool>,
    /// Absent: the old one with its last number counted up.
    pub version: Option<Version>,
}

/// A package and what is in it; of a binding, what is in its provider.
#[derive(Clone, Debug)]
pub struct PackageContents {
    /// The package. A binding has its provider's parameters under its own.
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

    /// A package that the caller may bind to, or a binding, which nobody may.
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

    /// A package with what is in it. Foreign ones have to be published; a binding is its owner's alone.
    /// [`ControllerError::PackageTooLarge`] when what is in it is more than `most` of JSON.
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

    /// A package as the caller sees it, and where its actions are: in itself, or in its provider.
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

    /// Deletes a package and gives what it was; with `force`, also one that holds something, with all of that.
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
            // No action is written into it meanwhile.
            let _structure = controller.structure.write().await;
            let catalog = &controller.stores.catalog;
            let (namespace, within) = (&path.namespace, Some(&path.name));
            // Counted, not read: everybody's calls wait for this.
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

    /// The packages of a namespace without their parameters, latest first; of a foreign one, those that everybody may use.
    /// [`ControllerError::ListTooLarge`] when they are more than `most` of JSON.
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

    /// How many those are.
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

    /// Whether an action may be written at, or deleted from, a place in a package: not where there is none, and not through a binding.
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

/// The package that a write asks for.
fn drafted(path: EntityPath, put: PutPackage, old: Option<Package>) -> Result<Package, ControllerError> {
    let EntityPath { namespace, name } = path;
    let old = old.as_ref();
    let binding = put.binding.or_else(|| old.and_then(|old| old.binding.clone()));
    let mut annotations = put.annotations.or_else(|| Some(old?.annotations.clone())).unwrap_or_default();
    // Flint's own word, whatever a client says.
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
