//! A catalog that adds the built-in packages to the stored entities.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use flint_invoker::Invoker;
use flint_model::{
    ByteSize, Collection, Entity, EntityName, EntityPath, Function, FunctionPath, KeyId, KeyRecord,
    Namespace, NamespaceName, Package, Parameters, Rule, Sequence,
};
use flint_store::{Catalog, Expected, Page, StoreError};

use super::{NAMESPACE, contents::Contents};

/// The stored catalog, plus the read-only namespace `whisk.system`.
pub(crate) struct WithSystem {
    stored: Arc<dyn Catalog>,
    invoker: Arc<Invoker>,
    contents: OnceLock<Contents>,
}

impl WithSystem {
    /// The built-in packages are created on first use.
    pub(crate) fn new(stored: Arc<dyn Catalog>, invoker: Arc<Invoker>) -> Self {
        Self { stored, invoker, contents: OnceLock::new() }
    }

    fn contents(&self) -> Result<&Contents, StoreError> {
        if let Some(contents) = self.contents.get() {
            return Ok(contents);
        }
        let made = Contents::new(&self.invoker.kinds()).map_err(|error| StoreError::Failed {
            operation: "reading the system's packages",
            detail: error.detail().unwrap_or_else(|| error.to_string()),
        })?;
        Ok(self.contents.get_or_init(|| made))
    }

    /// All built-in entities of a collection, in the order of lists.
    fn all(&self, collection: Collection, package: Option<&EntityName>) -> Result<Vec<Entity>, StoreError> {
        let contents = self.contents()?;
        Ok(match (collection, package) {
            (Collection::Packages, None) => contents.packages.iter().cloned().map(Entity::Package).collect(),
            (Collection::Actions, package) => {
                contents.functions_in(package).cloned().map(Entity::Function).collect()
            }
            _ => Vec::new(),
        })
    }
}

fn is_system(namespace: &NamespaceName) -> bool {
    namespace.as_str() == NAMESPACE
}

/// A write to the built-in namespace is a conflict.
fn check(namespace: &NamespaceName) -> Result<(), StoreError> {
    if is_system(namespace) { Err(StoreError::Conflict) } else { Ok(()) }
}

/// As shown in lists.
fn listed(function: &Function) -> Function {
    Function { parameters: Parameters::default(), ..function.clone() }
}

fn paged<T>(all: impl IntoIterator<Item = T>, page: Page) -> Vec<T> {
    all.into_iter().skip(page.skip).take(page.limit).collect()
}

#[async_trait]
impl Catalog for WithSystem {
    async fn put_entity(&self, entity: &Entity, expected: Expected) -> Result<u64, StoreError> {
        check(entity.namespace())?;
        self.stored.put_entity(entity, expected).await
    }

    async fn entity(
        &self,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
        name: &EntityName,
    ) -> Result<Option<Entity>, StoreError> {
        if !is_system(namespace) {
            return self.stored.entity(namespace, package, name).await;
        }
        let contents = self.contents()?;
        Ok(match package {
            None => contents.package(name).cloned().map(Entity::Package),
            Some(_) => {
                let mut functions = contents.functions_in(package);
                functions.find(|function| function.path.name == *name).cloned().map(Entity::Function)
            }
        })
    }

    async fn delete_entity(
        &self,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
        name: &EntityName,
        revision: u64,
    ) -> Result<(), StoreError> {
        check(namespace)?;
        self.stored.delete_entity(namespace, package, name, revision).await
    }

    async fn delete_package(
        &self,
        path: &EntityPath,
        revision: u64,
        with_contents: bool,
    ) -> Result<(), StoreError> {
        check(&path.namespace)?;
        self.stored.delete_package(path, revision, with_contents).await
    }

    async fn entities(
        &self,
        namespace: &NamespaceName,
        collection: Collection,
        package: Option<&EntityName>,
        page: Page,
        most: ByteSize,
    ) -> Result<Vec<Entity>, StoreError> {
        match is_system(namespace) {
            true => {
                let all = self.all(collection, package)?;
                Ok(paged(all.into_iter().map(Entity::without_parameters), page))
            }
            false => self.stored.entities(namespace, collection, package, page, most).await,
        }
    }

    async fn count_entities(
        &self,
        namespace: &NamespaceName,
        collection: Collection,
        package: Option<&EntityName>,
    ) -> Result<usize, StoreError> {
        match is_system(namespace) {
            true => Ok(self.all(collection, package)?.len()),
            false => self.stored.count_entities(namespace, collection, package).await,
        }
    }

    async fn rules_of(&self, trigger: &EntityPath) -> Result<Vec<Rule>, StoreError> {
        self.stored.rules_of(trigger).await
    }

    async fn put_function(&self, function: &Function, expected: Expected) -> Result<u64, StoreError> {
        check(&function.path.namespace)?;
        self.stored.put_function(function, expected).await
    }

    async fn function(&self, path: &FunctionPath) -> Result<Option<Function>, StoreError> {
        match is_system(&path.namespace) {
            true => Ok(self.contents()?.functions.iter().find(|function| function.path == *path).cloned()),
            false => self.stored.function(path).await,
        }
    }

    async fn delete_function(&self, path: &FunctionPath, revision: u64) -> Result<(), StoreError> {
        check(&path.namespace)?;
        self.stored.delete_function(path, revision).await
    }

    async fn functions(
        &self,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
        page: Page,
        most: ByteSize,
    ) -> Result<Vec<Function>, StoreError> {
        match is_system(namespace) {
            true => Ok(paged(self.contents()?.functions_in(package).map(listed), page)),
            false => self.stored.functions(namespace, package, page, most).await,
        }
    }

    async fn count_functions(
        &self,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
    ) -> Result<usize, StoreError> {
        match is_system(namespace) {
            true => Ok(self.contents()?.functions_in(package).count()),
            false => self.stored.count_functions(namespace, package).await,
        }
    }

    async fn sequences(
        &self,
        namespace: &NamespaceName,
        page: Page,
        most: ByteSize,
    ) -> Result<Vec<Sequence>, StoreError> {
        match is_system(namespace) {
            true => Ok(Vec::new()),
            false => self.stored.sequences(namespace, page, most).await,
        }
    }

    async fn shared_packages(
        &self,
        namespace: &NamespaceName,
        page: Page,
        most: ByteSize,
    ) -> Result<Vec<Package>, StoreError> {
        match is_system(namespace) {
            true => {
                let shared = self.contents()?.packages.iter().filter(|package| package.is_shared());
                let listed =
                    |package: &Package| Package { parameters: Parameters::default(), ..package.clone() };
                Ok(paged(shared.map(listed), page))
            }
            false => self.stored.shared_packages(namespace, page, most).await,
        }
    }

    async fn count_shared_packages(&self, namespace: &NamespaceName) -> Result<usize, StoreError> {
        match is_system(namespace) {
            true => Ok(self.contents()?.packages.iter().filter(|package| package.is_shared()).count()),
            false => self.stored.count_shared_packages(namespace).await,
        }
    }

    async fn function_revisions(
        &self,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
    ) -> Result<Vec<(FunctionPath, u64)>, StoreError> {
        match is_system(namespace) {
            true => {
                let functions = self.contents()?.functions_in(package);
                Ok(functions.map(|function| (function.path.clone(), function.revision)).collect())
            }
            false => self.stored.function_revisions(namespace, package).await,
        }
    }

    /// Includes the built-in ones, so that their artefacts are not collected as garbage.
    async fn all_functions(&self) -> Result<Vec<Function>, StoreError> {
        let mut all = self.stored.all_functions().await?;
        all.extend(self.contents()?.functions.iter().map(listed));
        Ok(all)
    }

    async fn put_namespace(&self, namespace: &Namespace) -> Result<(), StoreError> {
        check(&namespace.name)?;
        self.stored.put_namespace(namespace).await
    }

    async fn namespace(&self, name: &NamespaceName) -> Result<Option<Namespace>, StoreError> {
        self.stored.namespace(name).await
    }

    async fn namespaces(&self) -> Result<Vec<Namespace>, StoreError> {
        self.stored.namespaces().await
    }

    async fn delete_namespace(&self, name: &NamespaceName) -> Result<bool, StoreError> {
        self.stored.delete_namespace(name).await
    }

    async fn put_key(&self, key: &KeyRecord) -> Result<(), StoreError> {
        check(&key.namespace)?;
        self.stored.put_key(key).await
    }

    async fn key(&self, id: KeyId) -> Result<Option<KeyRecord>, StoreError> {
        self.stored.key(id).await
    }

    async fn keys(&self, namespace: &NamespaceName) -> Result<Vec<KeyRecord>, StoreError> {
        self.stored.keys(namespace).await
    }

    async fn delete_key(&self, id: KeyId) -> Result<bool, StoreError> {
        self.stored.delete_key(id).await
    }
}
