//! Selects the version of a function that a call gets.
//!
//! The bare name selects the newest, or what the alias `live` names. `name@0.0.3` selects that version and
//! `name@canary` that alias, unless an action has this whole name: names may contain `@`.

use std::sync::Arc;

use flint_model::{AliasName, Entity, Function, FunctionPath, NamespaceName, Qualifier};

use crate::{
    Controller, ControllerError,
    resolve::{Inherited, Named, Resolved},
};

impl Controller {
    /// Resolves a function called by its bare name.
    pub(crate) async fn by_name(
        &self,
        function: Function,
        asked: &FunctionPath,
        inherited: Inherited,
    ) -> Result<Resolved, ControllerError> {
        let live = self.stores.versions.targets(&function.path, &AliasName::live()).await?;
        let split = self.split(live.unwrap_or_default(), asked, &inherited).await?;
        let callee = self.made_callable(function, asked, &inherited).await?;
        Ok(Resolved { callee, origin: inherited.origin, split, named: None })
    }

    /// Resolves a path that no action has: it may name a version.
    pub(crate) async fn by_version(
        &self,
        who: &NamespaceName,
        at: &FunctionPath,
        asked: &FunctionPath,
        inherited: Inherited,
    ) -> Result<Resolved, ControllerError> {
        let (name, qualifier) = Qualifier::split(&at.name).ok_or(ControllerError::NotFound)?;
        // Others may call what the owner offers: the newest and what an alias names. An old version may have
        // a vulnerability.
        if matches!(qualifier, Qualifier::Version(_)) && at.namespace != *who {
            return Err(ControllerError::Forbidden(asked.to_string()));
        }
        let at = FunctionPath { name, ..at.clone() };
        let versions = &self.stores.versions;
        let there = self.stores.catalog.entity(&at.namespace, at.package.as_ref(), &at.name).await?;
        let Some(Entity::Function(newest)) = there else { return Err(ControllerError::NotFound) };
        let (function, split, named) = match qualifier {
            Qualifier::Version(version) => {
                let function = match newest.version == version {
                    true => newest,
                    false => versions.version(&at, version).await?.ok_or(ControllerError::NotFound)?,
                };
                (function, Vec::new(), Named::ByNumber)
            }
            Qualifier::Alias(alias) => {
                let targets = versions.targets(&at, &alias).await?.ok_or(ControllerError::NotFound)?;
                let heaviest = targets.iter().max_by_key(|(weight, _)| *weight);
                let function = heaviest.ok_or(ControllerError::NotFound)?.1.clone();
                (function, self.split(targets, asked, &inherited).await?, Named::ByAlias)
            }
        };
        self.invoker.want(&at, function.revision);
        let callee = self.made_callable(function, asked, &inherited).await?;
        Ok(Resolved { callee, origin: inherited.origin, split, named: Some(named) })
    }

    /// Several versions, each ready to be called.
    async fn split(
        &self,
        targets: Vec<(u32, Function)>,
        asked: &FunctionPath,
        inherited: &Inherited,
    ) -> Result<Vec<(u32, Arc<Resolved>)>, ControllerError> {
        let mut split = Vec::with_capacity(targets.len());
        for (weight, function) in targets {
            self.invoker.want(&function.path, function.revision);
            let callee = self.made_callable(function, asked, inherited).await?;
            let origin = inherited.origin.clone();
            split.push((weight, Arc::new(Resolved { callee, origin, split: Vec::new(), named: None })));
        }
        Ok(split)
    }
}
