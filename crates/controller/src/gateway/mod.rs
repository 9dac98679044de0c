//! The API gateway: paths and methods that a namespace chooses, each answered by a web action.

mod path;
mod table;

use std::sync::Arc;

use flint_model::{Api, NamespaceName, Operation, Timestamp};
use flint_store::{Expected, StoreError};
use serde_json::{Map, Value};

pub(crate) use table::Tables;
pub use table::{Routed, Routing};

use crate::{Caller, Controller, ControllerError, lists::LARGEST_LIST, merge::check_json};

/// Attempts at a change that conflicts with concurrent ones.
const ATTEMPTS: usize = 8;
/// Maximum number of APIs per namespace.
const MOST_APIS: usize = 100;

/// Maximum number of operations per API.
const MOST_OPERATIONS: usize = 1000;

/// Maximum length of a title.
const LONGEST_TITLE: usize = 256;

/// A request to create or replace a whole API.
#[derive(Clone, Debug)]
pub struct PutApi {
    /// The prefix of all its paths.
    pub base_path: String,
    /// Its title.
    pub title: String,
    /// The other members of its Swagger document.
    pub document: Map<String, Value>,
    /// Its operations.
    pub operations: Vec<Operation>,
}

/// The part of an API to delete.
#[derive(Clone, Copy, Debug)]
pub struct DeleteApi<'a> {
    /// The API: its base path, or its title.
    pub which: &'a str,
    /// Only this path.
    pub path: Option<&'a str>,
    /// Only this method of it.
    pub method: Option<&'a str>,
}

impl Controller {
    /// Creates an API, or replaces the one at its base path.
    pub async fn put_api(self: &Arc<Self>, caller: &Caller, put: PutApi) -> Result<Api, ControllerError> {
        for operation in &put.operations {
            self.check_operation(operation).await?;
        }
        let base_path = path::base_path(&put.base_path)?;
        self.change(caller, &base_path, |old| {
            let PutApi { title, document, mut operations, .. } = put.clone();
            // Exported documents do not contain secrets, so one that was changed and sent again has none.
            for new in operations.iter_mut().filter(|new| new.secret.is_none()) {
                let same = |old: &&Operation| {
                    (&old.path, &old.method, &old.action) == (&new.path, &new.method, &new.action)
                };
                new.secret =
                    old.iter().flat_map(|old| &old.operations).find(same).and_then(|old| old.secret.clone());
            }
            Ok(Some((title, document, operations)))
        })
        .await?
        .ok_or(ControllerError::NotFound)
    }

    /// Adds an operation to the API at a base path, replacing the one with its path and method. Creates the
    /// API if there is none, with the title, or else the base path as its title.
    pub async fn put_operation(
        self: &Arc<Self>,
        caller: &Caller,
        base_path: &str,
        title: Option<&str>,
        operation: Operation,
    ) -> Result<Api, ControllerError> {
        self.check_operation(&operation).await?;
        let base_path = path::base_path(base_path)?;
        self.change(caller, &base_path, |old| {
            let (old_title, document, mut operations) = match old {
                Some(old) => (old.title, old.document, old.operations),
                None => (title.unwrap_or(&base_path).to_owned(), Map::new(), Vec::new()),
            };
            let at = |one: &Operation| one.path == operation.path && one.method == operation.method;
            match operations.iter_mut().find(|one| at(one)) {
                Some(one) => *one = operation.clone(),
                None => operations.push(operation.clone()),
            }
            Ok(Some((old_title, document, operations)))
        })
        .await?
        .ok_or(ControllerError::NotFound)
    }

    /// Deletes an API or a part of it. An API without operations is deleted.
    pub async fn delete_api(
        self: &Arc<Self>,
        caller: &Caller,
        delete: DeleteApi<'_>,
    ) -> Result<(), ControllerError> {
        let DeleteApi { which, path, method } = delete;
        let method = method.map(str::to_ascii_lowercase);
        let apis = self.apis(caller).await?;
        let by_path = apis.iter().find(|api| api.base_path == which);
        let found = by_path.or_else(|| apis.iter().find(|api| api.title == which));
        let no_such = || ControllerError::NoSuch(format!("{which}{}", path.unwrap_or_default()));
        let base_path = found.map(|api| api.base_path.clone()).ok_or_else(no_such)?;
        self.change(caller, &base_path, |old| {
            let old = old.ok_or_else(no_such)?;
            let Some(path) = path else { return Ok(None) };
            let before = old.operations.len();
            let goes = |one: &Operation| {
                one.path == path && method.as_ref().is_none_or(|method| *method == one.method)
            };
            let operations: Vec<_> = old.operations.into_iter().filter(|one| !goes(one)).collect();
            match operations.len() {
                left if left == before => Err(no_such()),
                0 => Ok(None),
                _ => Ok(Some((old.title, old.document, operations))),
            }
        })
        .await?;
        Ok(())
    }

    /// The APIs of the caller's namespace, in order of base path.
    pub async fn apis(&self, caller: &Caller) -> Result<Vec<Api>, ControllerError> {
        Ok(self.stores.apis.apis(&caller.namespace.name).await?)
    }

    /// Routes a request to a namespace's APIs. `segments` is the decoded path below the namespace.
    pub async fn route_api(
        &self,
        namespace: &NamespaceName,
        segments: &[&str],
        method: &str,
    ) -> Result<Routing, ControllerError> {
        if self.owner(namespace).await?.is_none() {
            return Ok(Routing::Nobody);
        }
        let table = self.tables.of(namespace, &*self.stores.apis).await?;
        Ok(table.route(segments, &method.to_ascii_lowercase()))
    }

    /// Writes the API that `change` returns, or deletes it for `None`; repeated on a conflict with a
    /// concurrent change.
    async fn change<F>(
        self: &Arc<Self>,
        caller: &Caller,
        base_path: &str,
        change: F,
    ) -> Result<Option<Api>, ControllerError>
    where
        F: Fn(Option<Api>) -> Result<Option<(String, Map<String, Value>, Vec<Operation>)>, ControllerError>,
    {
        let namespace = &caller.namespace.name;
        for _ in 0..ATTEMPTS {
            let old = self.stores.apis.api(namespace, base_path).await?;
            let revision = old.as_ref().map(|old| old.revision);
            let expected = revision.map_or(Expected::Absent, Expected::Revision);
            let new = change(old)?.map(|(title, document, operations)| Api {
                namespace: namespace.clone(),
                base_path: base_path.to_owned(),
                title,
                revision: 0,
                document,
                operations,
                updated: Timestamp::now(),
            });
            if let Some(api) = &new {
                self.check(api)?;
                self.check_beside_others(caller, api).await?;
            }
            match self.write_api(caller, base_path.to_owned(), new, expected).await {
                Err(ControllerError::Race) => {}
                written => return written,
            }
        }
        Err(ControllerError::Race)
    }

    async fn write_api(
        self: &Arc<Self>,
        caller: &Caller,
        base_path: String,
        api: Option<Api>,
        expected: Expected,
    ) -> Result<Option<Api>, ControllerError> {
        let (controller, caller) = (Arc::clone(self), caller.clone());
        let writing = async move {
            let _namespace = controller.hold_namespace(caller.account()).await?;
            let namespace = &caller.namespace.name;
            let apis = &controller.stores.apis;
            let written = match (api, expected) {
                (Some(api), expected) => {
                    let revision = apis.put_api(&api, expected).await?;
                    Some(Api { revision, ..api })
                }
                (None, Expected::Revision(revision)) => {
                    apis.delete_api(namespace, &base_path, revision).await?;
                    None
                }
                (None, Expected::Absent) => return Err(StoreError::Conflict.into()),
            };
            controller.tables.forget(namespace);
            tracing::info!(%namespace, base_path, "API written");
            Ok(written)
        };
        self.detached(writing).await
    }

    fn check(&self, api: &Api) -> Result<(), ControllerError> {
        let invalid = |text: String| Err(ControllerError::Invalid(text));
        if api.title.is_empty() || api.title.chars().count() > LONGEST_TITLE {
            return invalid(format!("An API's name has 1 to {LONGEST_TITLE} characters."));
        }
        if api.operations.len() > MOST_OPERATIONS {
            return invalid(format!("An API has at most {MOST_OPERATIONS} operations."));
        }
        check_json("API", api, self.config.limits.bounds.max_parameters)
    }

    /// Enforces the limits on a namespace's number of APIs and on their total size: a call or a list loads
    /// all of them into memory.
    async fn check_beside_others(&self, caller: &Caller, api: &Api) -> Result<(), ControllerError> {
        let mut others = self.apis(caller).await?;
        others.retain(|other| other.base_path != api.base_path);
        if others.len() >= MOST_APIS {
            return Err(ControllerError::Invalid(format!(
                "a namespace may have {MOST_APIS} APIs: delete one, or add a path to one that is there"
            )));
        }
        let size = |api: &Api| serde_json::to_vec(api).map_or(0, |text| text.len() as u64);
        let together: u64 = others.iter().chain([api]).map(size).sum();
        match together > LARGEST_LIST.as_u64() {
            true => Err(ControllerError::Invalid(format!(
                "the APIs of a namespace may be {LARGEST_LIST} of JSON together: delete one, or let their documents say less"
            ))),
            false => Ok(()),
        }
    }

    async fn check_operation(&self, operation: &Operation) -> Result<(), ControllerError> {
        path::check_template(&operation.path)?;
        path::check_method(&operation.method)?;
        match self.exported(&operation.action).await? {
            Some(_) => Ok(()),
            None => Err(ControllerError::Invalid(format!(
                "Action '/{}' does not exist or is not a web action: an API needs its annotation web-export to be true.",
                operation.action
            ))),
        }
    }
}
