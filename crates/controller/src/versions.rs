//! Earlier versions of functions: history, rollback and aliases.

use std::sync::Arc;

use flint_executor::Progress;
use flint_model::{Alias, AliasName, AliasTarget, Entity, Function, FunctionPath, Timestamp, Version};
use flint_store::StoreError;
use serde::{Deserialize, Serialize};

use crate::{
    Caller, Controller, ControllerError, Deployed, PutFunction, Unnamed,
    background::Wanted,
    deploy::{Draft, Ready, Release, may_use},
    functions::own,
};

/// Keys `versions.*`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VersionsConfig {
    /// How many earlier versions of a function are kept beside those that an alias names.
    pub keep: usize,
    /// How many aliases a function may have.
    pub max_aliases: usize,
}

impl Default for VersionsConfig {
    fn default() -> Self {
        Self { keep: 10, max_aliases: 32 }
    }
}

/// The history of a function.
#[derive(Clone, Debug)]
pub struct History {
    /// The function and its kept versions, the latest first, without parameters, annotations and warm-up
    /// events.
    pub versions: Vec<Function>,
    /// Its aliases in order of name.
    pub aliases: Vec<Alias>,
}

impl Controller {
    /// The versions and aliases of a function.
    pub async fn history(&self, caller: &Caller, path: &FunctionPath) -> Result<History, ControllerError> {
        self.own_function(caller, path).await?;
        let aliases = self.stores.versions.aliases(path).await?;
        let versions = self.stores.versions.versions(path).await?;
        Ok(History { versions, aliases })
    }

    /// Makes an earlier version, by default the previous one, the current one: a new version with its code
    /// and configuration. An alias `live`, if there is one, then names that new version.
    pub async fn roll_back(
        self: &Arc<Self>,
        caller: &Caller,
        path: &FunctionPath,
        to: Option<Version>,
        progress: Progress<'_>,
    ) -> Result<Deployed, ControllerError> {
        let newest = self.own_function(caller, path).await?;
        let versions = &self.stores.versions;
        let live = versions.targets(path, &AliasName::live()).await?.is_some();
        let old = match to {
            Some(version) if version == newest.version && !live => {
                return Err(conflict(format!(
                    "{version} is the newest version of {path}: calls get it already"
                )));
            }
            Some(version) => match versions.version(path, version).await? {
                Some(old) => old,
                None => return Err(ControllerError::NoSuch(format!("{path}@{version}"))),
            },
            None if live => return Err(ControllerError::LiveDecides(path.clone())),
            None => {
                let before = versions.kept(path).await?.first().map(|kept| kept.version);
                let old = match before {
                    Some(version) => versions.version(path, version).await?,
                    None => None,
                };
                old.ok_or_else(|| {
                    conflict(format!("no version of {path} before {} is kept", newest.version))
                })?
            }
        };
        may_use(caller, &old.kind, &self.invoker.kinds())?;
        let mut put = PutFunction { overwrite: true, unnamed: Unnamed::Kept, ..PutFunction::default() };
        self.number(&newest, &mut put.version).await?;
        let restored = Some(old.version);
        let capabilities = self.capabilities().await;
        let Draft { function, .. } = self.draft(caller, path.clone(), put, Some(&old), None, capabilities)?;
        let function = Arc::new(Function { revision: newest.revision + 1, restored, ..function });
        let deploying = self.deploys.begin(&function).await;
        let content = self.code(&function).await?;
        let (replaced, ready) = (Some(newest.revision), Ready::Prepare(content));
        let release = Release { function, deploying, replaced, ready, live_follows: true };
        self.release(caller, release, progress).await
    }

    /// Writes an alias, visible to calls at once.
    pub async fn set_alias(
        self: &Arc<Self>,
        caller: &Caller,
        path: &FunctionPath,
        name: AliasName,
        targets: Vec<AliasTarget>,
    ) -> Result<Alias, ControllerError> {
        let newest = self.own_function(caller, path).await?;
        let alias = Alias::new(path.clone(), name, targets, Timestamp::now())
            .map_err(|error| ControllerError::Invalid(error.to_string()))?;
        for target in &alias.targets {
            let version = self.stores.versions.version(path, target.version).await?;
            version.ok_or_else(|| ControllerError::NoSuch(format!("{path}@{}", target.version)))?;
        }
        let (controller, caller, written) = (Arc::clone(self), caller.clone(), alias.clone());
        let writing = async move {
            let _namespace = controller.hold_namespace(caller.account()).await?;
            let most = controller.config.versions.max_aliases;
            controller.stores.versions.put_alias(&written, most).await.map_err(|error| match error {
                StoreError::TooMany { allowed } => conflict(format!(
                    "{} has {allowed} aliases, which is the most it may have: remove one, or raise versions.max_aliases",
                    written.path
                )),
                other => other.into(),
            })?;
            controller.forget_versions(&written.path, newest.revision - 1).await;
            Ok::<_, ControllerError>(())
        };
        self.detached(writing).await?;
        for target in &alias.targets {
            // So that the first call need not wait for it.
            self.prepare_in_background(Wanted { path: path.clone(), version: Some(target.version) });
        }
        Ok(alias)
    }

    /// Deletes an alias.
    pub async fn delete_alias(
        self: &Arc<Self>,
        caller: &Caller,
        path: &FunctionPath,
        name: &AliasName,
    ) -> Result<(), ControllerError> {
        let newest = self.own_function(caller, path).await?;
        let (controller, caller) = (Arc::clone(self), caller.clone());
        let (path, name) = (path.clone(), name.clone());
        let deleting = async move {
            let _namespace = controller.hold_namespace(caller.account()).await?;
            if !controller.stores.versions.delete_alias(&path, &name).await? {
                return Err(ControllerError::NoSuch(format!("{path}@{name}")));
            }
            controller.forget_versions(&path, newest.revision - 1).await;
            Ok(())
        };
        self.detached(deleting).await
    }

    /// The newest version of a function of the caller's own.
    async fn own_function(&self, caller: &Caller, path: &FunctionPath) -> Result<Function, ControllerError> {
        own(caller, &path.namespace, || path.to_string())?;
        match self.action_at(path).await? {
            Some(Entity::Function(function)) => Ok(function),
            Some(_) => Err(ControllerError::NoFunction(path.to_string())),
            None => Err(ControllerError::NotFound),
        }
    }

    /// Chooses the version number after `old`, or checks the requested one.
    pub(crate) async fn number(
        &self,
        old: &Function,
        asked: &mut Option<Version>,
    ) -> Result<(), ControllerError> {
        let versions = &self.stores.versions;
        if let Some(asked) = asked {
            let aliases = versions.aliases(&old.path).await?;
            return match aliases.iter().find(|alias| alias.names(*asked)) {
                None => Ok(()),
                Some(alias) => Err(conflict(format!(
                    "version {asked} of {} stays what it is because the alias '{}' names it: choose another number or none, or move the alias first",
                    old.path, alias.name
                ))),
            };
        }
        let kept = versions.kept(&old.path).await?;
        let mut next = next_version(None, Some(old.version))?;
        // Requested numbers may have gone backwards.
        for _ in 0..kept.len() {
            if kept.iter().any(|kept| kept.version == next) {
                next = next_version(None, Some(next))?;
            }
        }
        *asked = Some(next);
        Ok(())
    }

    /// Invalidates a function whose versions or aliases were written. Instances of `revision` and older ones
    /// are withdrawn, except those of versions that an alias names.
    pub(crate) async fn forget_versions(&self, path: &FunctionPath, revision: u64) {
        // Serialised: the last one to look has seen everything that was written.
        let _one = self.versioning.lock().await;
        let kept = self.stores.versions.kept(path).await.unwrap_or_else(|error| {
            tracing::warn!(function = %path, %error, "instances of versions that an alias names are started anew");
            Vec::new()
        });
        let named: Vec<_> = kept.iter().filter(|kept| kept.named).map(|kept| kept.revision).collect();
        // In this order: what is resolved from now on is not forgotten again.
        self.invoker.forget(path, revision, &named);
        self.forget_action(path);
    }
}

/// The version of a write: the requested one, or the one after the old version.
pub(crate) fn next_version(asked: Option<Version>, old: Option<Version>) -> Result<Version, ControllerError> {
    match (asked, old) {
        (Some(asked), _) => Ok(asked),
        (None, None) => Ok(Version::FIRST),
        (None, Some(old)) => old.bump().ok_or_else(|| {
            let [major, minor, _] = old.numbers();
            conflict(format!(
                "no version comes after {old}: choose the number of the next (OpenWhisk's `version`), for example one above {major}.{minor}, or delete what is there first"
            ))
        }),
    }
}

fn conflict(text: String) -> ControllerError {
    ControllerError::Conflicting(text)
}
