//! Triggers as entities: reading, writing, listing. `fire.rs` fires them.

mod fire;

use std::sync::Arc;

use flint_model::{
    Annotations, ByteSize, Collection, Entity, EntityName, EntityPath, FunctionPath, NamespaceName,
    Parameters, Rule, Timestamp, Trigger, Version,
};
use flint_store::{Expected, Page};
use serde_json::Value;

pub use fire::Firing;
pub(crate) use fire::ReadyTrigger;

use crate::{Caller, Controller, ControllerError, functions::own, versions::next_version};

/// The annotation that names the action of the trigger's feed.
const FEED: &str = "feed";

/// A write of a trigger. An absent field keeps its old value, or gets its default in a new trigger.
#[derive(Clone, Debug, Default)]
pub struct PutTrigger {
    /// Replace what is there.
    pub overwrite: bool,
    /// Default arguments; replace all old ones.
    pub parameters: Option<Parameters>,
    /// Replace all old ones.
    pub annotations: Option<Annotations>,
    /// Stored because clients set it.
    pub publish: Option<bool>,
    /// The version; by default the old one with its last number incremented.
    pub version: Option<Version>,
}

/// A trigger and the rules that listen to it, in order of path.
#[derive(Clone, Debug)]
pub struct TriggerWithRules {
    /// The trigger.
    pub trigger: Trigger,
    /// Its rules.
    pub rules: Vec<Rule>,
}

impl Controller {
    /// Creates or overwrites a trigger.
    pub async fn put_trigger(
        self: &Arc<Self>,
        caller: &Caller,
        path: EntityPath,
        put: PutTrigger,
    ) -> Result<TriggerWithRules, ControllerError> {
        own(caller, &path.namespace, || path.to_string())?;
        let old = self.trigger_at(&path).await?;
        let expected = match &old {
            Some(_) if !put.overwrite => return Err(ControllerError::Exists),
            Some(old) => Expected::Revision(old.revision),
            None => Expected::Absent,
        };
        if old.is_none()
            && let Some(feed) = put.annotations.as_ref().and_then(|annotations| annotations.get(FEED))
            && !is_feed(feed)
        {
            return Err(ControllerError::Invalid("Feed name is not valid".to_owned()));
        }
        let old = old.as_ref();
        let trigger = Trigger {
            version: next_version(put.version, old.map(|old| old.version))?,
            revision: 0, // the store chooses it
            publish: put.publish.or_else(|| Some(old?.publish)).unwrap_or_default(),
            annotations: put.annotations.or_else(|| Some(old?.annotations.clone())).unwrap_or_default(),
            parameters: put.parameters.or_else(|| Some(old?.parameters.clone())).unwrap_or_default(),
            updated: Timestamp::now(),
            namespace: path.namespace,
            name: path.name,
        };
        Self::check_sizes(caller, Some(&trigger.parameters), &trigger.annotations)?;
        let (controller, caller) = (Arc::clone(self), caller.clone());
        let writing = async move {
            let revision = controller.write_entity(&caller, &trigger.clone().into(), expected).await?;
            controller.forget_trigger(&trigger.path());
            controller.with_rules(Trigger { revision, ..trigger }).await
        };
        self.detached(writing).await
    }

    /// A trigger with its rules.
    pub async fn trigger(
        &self,
        caller: &Caller,
        path: &EntityPath,
    ) -> Result<TriggerWithRules, ControllerError> {
        own(caller, &path.namespace, || path.to_string())?;
        let trigger = self.trigger_at(path).await?.ok_or(ControllerError::NotFound)?;
        self.with_rules(trigger).await
    }

    /// Deletes and returns a trigger. Its rules stay, and are inactive while no trigger has its name.
    pub async fn delete_trigger(
        self: &Arc<Self>,
        caller: &Caller,
        path: &EntityPath,
    ) -> Result<TriggerWithRules, ControllerError> {
        let deleted = self.trigger(caller, path).await?;
        let controller = Arc::clone(self);
        let deleting = async move {
            let Trigger { namespace, name, revision, .. } = &deleted.trigger;
            controller.stores.catalog.delete_entity(namespace, None, name, *revision).await?;
            controller.forget_trigger(&deleted.trigger.path());
            controller.feeding.tell(&deleted.trigger.path());
            Ok(deleted)
        };
        self.detached(deleting).await
    }

    /// The triggers of a namespace without their parameters, latest first. [`ControllerError::ListTooLarge`]
    /// when they exceed `most` as JSON.
    pub async fn triggers(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
        page: Page,
        most: ByteSize,
    ) -> Result<Vec<Trigger>, ControllerError> {
        own(caller, namespace, || namespace.to_string())?;
        let catalog = &self.stores.catalog;
        let listed = catalog.entities(namespace, Collection::Triggers, None, page, most).await?;
        let trigger = |entity| match entity {
            Entity::Trigger(trigger) => Some(trigger),
            _ => None,
        };
        Ok(listed.into_iter().filter_map(trigger).collect())
    }

    /// The number of triggers in such a list.
    pub async fn count_triggers(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
    ) -> Result<usize, ControllerError> {
        own(caller, namespace, || namespace.to_string())?;
        Ok(self.stores.catalog.count_entities(namespace, Collection::Triggers, None).await?)
    }

    /// The trigger at a path; refused when the path holds another kind of entity.
    pub(crate) async fn trigger_at(&self, at: &EntityPath) -> Result<Option<Trigger>, ControllerError> {
        match self.stores.catalog.entity(&at.namespace, None, &at.name).await? {
            Some(Entity::Trigger(trigger)) => Ok(Some(trigger)),
            Some(_) => Err(ControllerError::OtherCollection),
            None => Ok(None),
        }
    }

    async fn with_rules(&self, trigger: Trigger) -> Result<TriggerWithRules, ControllerError> {
        let rules = self.stores.catalog.rules_of(&trigger.path()).await?;
        Ok(TriggerWithRules { trigger, rules })
    }

    /// Invalidates a trigger that was written, or whose rules were.
    pub(crate) fn forget_trigger(&self, path: &EntityPath) {
        self.triggers.remove(&key(path));
    }
}

/// A trigger's key in the cache.
fn key(path: &EntityPath) -> FunctionPath {
    FunctionPath::new(path.namespace.clone(), path.name.clone())
}

/// Whether an annotation names an action: `[/namespace/][package/]name`.
fn is_feed(annotation: &Value) -> bool {
    let Value::String(path) = annotation else { return false };
    let segments: Vec<_> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    segments.len() <= 3 && segments.iter().all(|segment| EntityName::parse(segment).is_ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_feed_is_named_by_a_path() {
        for good in ["feed", "/whisk.system/alarms/alarm", "/_/f", "p/f"] {
            assert!(is_feed(&json!(good)), "{good}");
        }
        for bad in
            [json!(""), json!("/"), json!("a//b"), json!("/a/b/c/d"), json!(7), json!(null), json!({"a": 1})]
        {
            assert!(!is_feed(&bad), "{bad}");
        }
    }
}
