//! Rules: each connects a trigger to an action.

use std::sync::Arc;

use flint_model::{
    Annotations, ByteSize, Collection, Entity, EntityPath, FunctionPath, NamespaceName, Rule, RuleStatus,
    Timestamp, Version,
};
use flint_store::{Expected, Page};

use crate::{Caller, Controller, ControllerError, ErrorKind, functions::own, versions::next_version};

/// A write of a rule. An absent field keeps its old value.
#[derive(Clone, Debug, Default)]
pub struct PutRule {
    /// Replace what is there.
    pub overwrite: bool,
    /// Its trigger; required for a new rule.
    pub trigger: Option<FunctionPath>,
    /// Its action; required for a new rule.
    pub action: Option<FunctionPath>,
    /// Replace all old ones.
    pub annotations: Option<Annotations>,
    /// Stored because clients set it.
    pub publish: Option<bool>,
    /// The version; by default the old one with its last number incremented.
    pub version: Option<Version>,
}

impl Controller {
    /// Creates or overwrites a rule. A new rule is active; an existing one keeps its status.
    pub async fn put_rule(
        self: &Arc<Self>,
        caller: &Caller,
        path: EntityPath,
        put: PutRule,
    ) -> Result<Rule, ControllerError> {
        own(caller, &path.namespace, || path.to_string())?;
        let old = self.rule_at(&path).await?;
        let expected = match &old {
            Some(_) if !put.overwrite => return Err(ControllerError::Exists),
            Some(old) => Expected::Revision(old.revision),
            None => Expected::Absent,
        };
        let old = old.as_ref();
        let as_path =
            |trigger: &EntityPath| FunctionPath::new(trigger.namespace.clone(), trigger.name.clone());
        let trigger = put.trigger.or_else(|| Some(as_path(&old?.trigger)));
        let action = put.action.or_else(|| Some(old?.action.clone()));
        let (Some(trigger), Some(action)) = (trigger, action) else {
            let text = "rule requires a valid trigger and a valid action";
            return Err(ControllerError::Invalid(text.to_owned()));
        };
        let trigger = self.listenable(caller, trigger).await?;
        self.check_callable(caller, &action).await?;
        let moved = old.map(|old| old.trigger.clone()).filter(|from| *from != trigger);
        let rule = Rule {
            version: next_version(put.version, old.map(|old| old.version))?,
            revision: 0, // the store chooses it
            publish: put.publish.or_else(|| Some(old?.publish)).unwrap_or_default(),
            annotations: put.annotations.or_else(|| Some(old?.annotations.clone())).unwrap_or_default(),
            status: old.map_or(RuleStatus::Active, |old| old.status),
            updated: Timestamp::now(),
            namespace: path.namespace,
            name: path.name,
            trigger,
            action,
        };
        Self::check_sizes(caller, None, &rule.annotations)?;
        self.write_rule(caller, rule, expected, moved).await
    }

    /// Writes a rule and makes it visible to firings of its trigger, and of the trigger it was `moved` from.
    async fn write_rule(
        self: &Arc<Self>,
        caller: &Caller,
        rule: Rule,
        expected: Expected,
        moved: Option<EntityPath>,
    ) -> Result<Rule, ControllerError> {
        let (controller, caller) = (Arc::clone(self), caller.clone());
        let writing = async move {
            let revision = controller.write_entity(&caller, &rule.clone().into(), expected).await?;
            controller.forget_trigger(&rule.trigger);
            moved.iter().for_each(|from| controller.forget_trigger(from));
            Ok(Rule { revision, ..rule })
        };
        self.detached(writing).await
    }

    /// An existing trigger of the caller's own, as a rule needs it.
    async fn listenable(&self, caller: &Caller, asked: FunctionPath) -> Result<EntityPath, ControllerError> {
        own(caller, &asked.namespace, || asked.to_string())?;
        let FunctionPath { namespace, package, name } = asked.clone();
        let trigger = EntityPath::new(namespace, name);
        match package {
            None if matches!(self.trigger_at(&trigger).await, Ok(Some(_))) => Ok(trigger),
            _ => Err(ControllerError::Invalid(format!("trigger /{asked} does not exist"))),
        }
    }

    /// Whether an action exists and the caller may call it.
    async fn check_callable(&self, caller: &Caller, action: &FunctionPath) -> Result<(), ControllerError> {
        let missing = || Err(ControllerError::Invalid(format!("action /{action} does not exist")));
        match self.find(&caller.namespace.name, action).await {
            Ok(found) if found.entity.is_some() => Ok(()),
            Ok(_) => missing(),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Conflict) => missing(),
            Err(error) => Err(error),
        }
    }

    /// A rule; inactive while its trigger does not exist.
    pub async fn rule(&self, caller: &Caller, path: &EntityPath) -> Result<Rule, ControllerError> {
        own(caller, &path.namespace, || path.to_string())?;
        let rule = self.rule_at(path).await?.ok_or(ControllerError::NotFound)?;
        match self.trigger_at(&rule.trigger).await {
            Ok(Some(_)) => Ok(rule),
            Ok(None) | Err(ControllerError::OtherCollection) => {
                Ok(Rule { status: RuleStatus::Inactive, ..rule })
            }
            Err(error) => Err(error),
        }
    }

    /// Activates or deactivates a rule.
    pub async fn set_rule_status(
        self: &Arc<Self>,
        caller: &Caller,
        path: &EntityPath,
        status: RuleStatus,
    ) -> Result<(), ControllerError> {
        own(caller, &path.namespace, || path.to_string())?;
        // The stored status, not the shown one: without its trigger a rule is shown as inactive, and the new
        // status is for when the trigger exists again.
        let stored = self.rule_at(path).await?.ok_or(ControllerError::NotFound)?;
        if status == RuleStatus::Active {
            match self.trigger_at(&stored.trigger).await {
                Ok(Some(_)) => {}
                Ok(None) | Err(ControllerError::OtherCollection) => {
                    let text = "Only rules with existing triggers can be activated";
                    return Err(ControllerError::Missing(text));
                }
                Err(error) => return Err(error),
            }
        }
        if stored.status == status {
            return Ok(());
        }
        let expected = Expected::Revision(stored.revision);
        self.write_rule(caller, Rule { status, ..stored }, expected, None).await?;
        Ok(())
    }

    /// Deletes and returns a rule, active or not; the returned one is inactive.
    pub async fn delete_rule(
        self: &Arc<Self>,
        caller: &Caller,
        path: &EntityPath,
    ) -> Result<Rule, ControllerError> {
        own(caller, &path.namespace, || path.to_string())?;
        let rule = self.rule_at(path).await?.ok_or(ControllerError::NotFound)?;
        let controller = Arc::clone(self);
        let deleting = async move {
            let catalog = &controller.stores.catalog;
            catalog.delete_entity(&rule.namespace, None, &rule.name, rule.revision).await?;
            controller.forget_trigger(&rule.trigger);
            Ok(Rule { status: RuleStatus::Inactive, ..rule })
        };
        self.detached(deleting).await
    }

    /// The rules of a namespace, latest first. [`ControllerError::ListTooLarge`] when they exceed `most` as
    /// JSON.
    pub async fn rules(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
        page: Page,
        most: ByteSize,
    ) -> Result<Vec<Rule>, ControllerError> {
        own(caller, namespace, || namespace.to_string())?;
        let catalog = &self.stores.catalog;
        let listed = catalog.entities(namespace, Collection::Rules, None, page, most).await?;
        let rule = |entity| match entity {
            Entity::Rule(rule) => Some(rule),
            _ => None,
        };
        Ok(listed.into_iter().filter_map(rule).collect())
    }

    /// The number of rules in such a list.
    pub async fn count_rules(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
    ) -> Result<usize, ControllerError> {
        own(caller, namespace, || namespace.to_string())?;
        Ok(self.stores.catalog.count_entities(namespace, Collection::Rules, None).await?)
    }

    /// The rule at a path; refused when the path holds another kind of entity.
    async fn rule_at(&self, at: &EntityPath) -> Result<Option<Rule>, ControllerError> {
        match self.stores.catalog.entity(&at.namespace, None, &at.name).await? {
            Some(Entity::Rule(rule)) => Ok(Some(rule)),
            Some(_) => Err(ControllerError::OtherCollection),
            None => Ok(None),
        }
    }
}
