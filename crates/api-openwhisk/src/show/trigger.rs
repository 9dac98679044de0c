//! The JSON of triggers, and of their records' rule outcomes.

use std::collections::BTreeMap;

use flint_controller::TriggerWithRules;
use flint_model::{
    Activation, ActivationId, Annotations, FiredRule, Parameters, Rule, RuleOutcome, Trigger, Version,
};
use serde::Serialize;

use super::rule::PathAndName;

/// A complete trigger.
#[derive(Serialize)]
pub(crate) struct TriggerDetail<'a> {
    #[serde(flatten)]
    common: TriggerSummary<'a>,
    parameters: &'a Parameters,
    limits: Limits,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    rules: BTreeMap<String, ShownRule<'a>>,
}

/// A trigger in lists.
#[derive(Serialize)]
pub(crate) struct TriggerSummary<'a> {
    namespace: &'a str,
    name: &'a str,
    version: Version,
    publish: bool,
    annotations: &'a Annotations,
    updated: u64,
}

/// Triggers have none, but clients read the field.
#[derive(Serialize)]
struct Limits {}

#[derive(Serialize)]
struct ShownRule<'a> {
    action: PathAndName<'a>,
    status: &'static str,
}

impl<'a> TriggerDetail<'a> {
    pub(crate) fn new(shown: &'a TriggerWithRules) -> Self {
        let rule = |rule: &'a Rule| {
            let action = PathAndName::of_action(&rule.action);
            (rule.path().to_string(), ShownRule { action, status: rule.status.as_str() })
        };
        Self {
            common: TriggerSummary::new(&shown.trigger),
            parameters: &shown.trigger.parameters,
            limits: Limits {},
            rules: shown.rules.iter().map(rule).collect(),
        }
    }
}

impl<'a> TriggerSummary<'a> {
    pub(crate) fn new(trigger: &'a Trigger) -> Self {
        Self {
            namespace: trigger.namespace.as_str(),
            name: trigger.name.as_str(),
            version: trigger.version,
            publish: trigger.publish,
            annotations: &trigger.annotations,
            updated: trigger.updated.as_millis(),
        }
    }
}

/// A trigger's record has one line of JSON for each of its rules.
pub(crate) fn fired_lines(record: &Activation) -> impl Iterator<Item = String> {
    record.fired.iter().map(|fired| serde_json::to_string(&Line::of(fired)).unwrap_or_default())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    rule: String,
    action: String,
    status_code: u8,
    success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    activation_id: Option<ActivationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn of(fired: &'a FiredRule) -> Self {
        let (activation_id, status_code, error) = match &fired.outcome {
            RuleOutcome::Called { activation } => (Some(*activation), 0, None),
            RuleOutcome::Refused { status, error } => (None, status.code(), Some(error.as_str())),
        };
        let (rule, action) = (fired.rule.to_string(), fired.action.to_string());
        Self { rule, action, status_code, success: error.is_none(), activation_id, error }
    }
}
