//! The JSON of rules.

use flint_model::{Annotations, EntityPath, FunctionPath, Rule, Version};
use serde::Serialize;

/// A complete rule.
#[derive(Serialize)]
pub(crate) struct RuleDetail<'a> {
    #[serde(flatten)]
    common: RuleSummary<'a>,
    status: &'static str,
}

/// A rule in lists, without its status, which would take a read of its trigger.
#[derive(Serialize)]
pub(crate) struct RuleSummary<'a> {
    namespace: &'a str,
    name: &'a str,
    version: Version,
    publish: bool,
    annotations: &'a Annotations,
    trigger: PathAndName<'a>,
    action: PathAndName<'a>,
    updated: u64,
}

/// `{"path": "namespace[/package]", "name": …}`
#[derive(Serialize)]
pub(crate) struct PathAndName<'a> {
    path: String,
    name: &'a str,
}

impl<'a> PathAndName<'a> {
    pub(crate) fn of_action(action: &'a FunctionPath) -> Self {
        let path = match &action.package {
            Some(package) => format!("{}/{package}", action.namespace),
            None => action.namespace.to_string(),
        };
        Self { path, name: action.name.as_str() }
    }

    fn of_trigger(trigger: &'a EntityPath) -> Self {
        Self { path: trigger.namespace.to_string(), name: trigger.name.as_str() }
    }
}

impl<'a> RuleDetail<'a> {
    pub(crate) fn new(rule: &'a Rule) -> Self {
        Self { common: RuleSummary::new(rule), status: rule.status.as_str() }
    }
}

impl<'a> RuleSummary<'a> {
    pub(crate) fn new(rule: &'a Rule) -> Self {
        Self {
            namespace: rule.namespace.as_str(),
            name: rule.name.as_str(),
            version: rule.version,
            publish: rule.publish,
            annotations: &rule.annotations,
            trigger: PathAndName::of_trigger(&rule.trigger),
            action: PathAndName::of_action(&rule.action),
            updated: rule.updated.as_millis(),
        }
    }
}
