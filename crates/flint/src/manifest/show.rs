//! Shows a plan to people and programs. Values of inputs and annotations may be secrets, and are only shown
//! on request.

use serde_json::{Value, json};

use super::{
    facts::{Change, Field},
    plan::{Plan, Step, Verb},
};
use crate::output::human_size;

/// Longer values are truncated.
const LONGEST: usize = 60;

/// One line for each step.
pub(crate) fn lines(plan: &Plan, values: bool) -> Vec<String> {
    let width = plan.steps.iter().map(|step| step.name.chars().count()).max().unwrap_or(0);
    plan.steps.iter().map(|step| line(step, width, values)).collect()
}

fn line(step: &Step, width: usize, values: bool) -> String {
    let sign = match &step.verb {
        Verb::Create => '+',
        Verb::Update(_) => '~',
        Verb::Unchanged => '=',
        Verb::Delete => '-',
        Verb::Keep(_) => '!',
    };
    let what = step.what.name();
    let said = match &step.verb {
        Verb::Update(changes) => {
            changes.iter().map(|change| changed(change, values)).collect::<Vec<_>>().join("; ")
        }
        Verb::Keep(why) => format!("kept: {why}"),
        Verb::Unchanged => "unchanged".to_owned(),
        Verb::Create => "new".to_owned(),
        Verb::Delete => "deleted".to_owned(),
    };
    format!("{sign} {what:<8}  {:width$}  {said}", step.name).trim_end().to_owned()
}

/// `memory 256 → 512`, `input token changed`.
fn changed(change: &Change, values: bool) -> String {
    let Change { field, from, to } = change;
    let is_shown = match field {
        Field::Digest(_) => false,
        field => values || !field.is_private(),
    };
    match (from, to) {
        (Some(from), Some(to)) if is_shown => {
            format!("{field} {} → {}", shown(field, from), shown(field, to))
        }
        (None, Some(to)) if is_shown => format!("{field} {} added", shown(field, to)),
        (Some(from), None) if is_shown => format!("{field} {} removed", shown(field, from)),
        (None, Some(_)) => format!("{field} added"),
        (Some(_), None) => format!("{field} removed"),
        _ => format!("{field} changed"),
    }
}

fn shown(field: &Field, value: &Value) -> String {
    let text = match (field, value) {
        (Field::Own("code"), value) => human_size(value["size"].as_u64().unwrap_or_default()),
        (Field::Limit("timeout"), value) => format!("{value} ms"),
        (Field::Limit("memory" | "logs"), value) => format!("{value} MB"),
        (_, Value::String(text)) if !field.is_private() => text.clone(),
        (_, Value::Array(list)) if list.iter().all(Value::is_string) => {
            list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
        (_, value) => value.to_string(),
    };
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// `2 to create, 1 to update, 3 unchanged`
pub(crate) fn summary(plan: &Plan) -> String {
    let count = |name: &str| plan.steps.iter().filter(|step| step.verb.name() == name).count();
    let counts = [
        ("create", "to create"),
        ("update", "to update"),
        ("delete", "to delete"),
        ("unchanged", "unchanged"),
        ("keep", "kept"),
    ];
    let said: Vec<_> = counts
        .into_iter()
        .map(|(name, words)| (count(name), words))
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{count} {words}"))
        .collect();
    if said.is_empty() { "nothing to do".to_owned() } else { said.join(", ") }
}

/// The whole plan for programs. `done` is the number of changing steps that were executed.
pub(crate) fn as_json(plan: &Plan, values: bool, dry_run: bool, done: usize, warnings: &[String]) -> Value {
    let mut left = done;
    let mut steps = Vec::new();
    for step in &plan.steps {
        let mut shown = json!({ "do": step.verb.name(), "what": step.what.name(), "name": step.name });
        match &step.verb {
            Verb::Update(changes) => {
                shown["changes"] = changes.iter().map(|change| change_as_json(change, values)).collect()
            }
            Verb::Keep(why) => shown["why"] = why.as_str().into(),
            _ => {}
        }
        if step.verb.changes_something() {
            shown["done"] = (left > 0).into();
            left = left.saturating_sub(1);
        }
        steps.push(shown);
    }
    let count = |name: &str| plan.steps.iter().filter(|step| step.verb.name() == name).count();
    json!({
        "project": plan.project, "dry_run": dry_run, "steps": steps, "warnings": warnings,
        "create": count("create"), "update": count("update"), "delete": count("delete"), "unchanged": count("unchanged"), "keep": count("keep"),
    })
}

fn change_as_json(change: &Change, values: bool) -> Value {
    let mut shown = json!({ "field": change.field.to_string() });
    let is_shown = values || !change.field.is_private();
    for (name, value) in [("from", &change.from), ("to", &change.to)] {
        if let Some(value) = value {
            // Its presence, now or later, is no secret.
            shown[name] = if is_shown { value.clone() } else { "…".into() };
        }
    }
    shown
}
