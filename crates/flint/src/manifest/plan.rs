//! Plans a deployment: computed and checked as a whole before anything is written.

use std::collections::BTreeSet;

use super::{
    assemble::{Reference, To, Wanted},
    entity::{DOCUMENT, Entity, What},
    facts::{Change, Field, diff, project_of},
    problems::Problems,
    server::{Existing, There},
};
use crate::{
    client::Client,
    failure::{Exit, Failure},
};

/// The steps of a deployment, in order.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) project: Option<String>,
    pub(crate) steps: Vec<Step>,
}

/// The step for one entity.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) verb: Verb,
    pub(crate) what: What,
    pub(crate) name: String,
    /// The desired entity, if it is written.
    pub(crate) entity: Option<Entity>,
    /// The existing entity; its type may be the other one that shares its names.
    pub(crate) existing: Option<(What, Existing)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verb {
    Create,
    Update(Vec<Change>),
    Unchanged,
    Delete,
    /// Would be deleted, but is kept for this reason.
    Keep(String),
}

impl Verb {
    pub(crate) fn changes_something(&self) -> bool {
        matches!(self, Self::Create | Self::Update(_) | Self::Delete)
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update(_) => "update",
            Self::Unchanged => "unchanged",
            Self::Delete => "delete",
            Self::Keep(_) => "keep",
        }
    }
}

impl Plan {
    /// The number of steps that change something.
    pub(crate) fn changes(&self) -> usize {
        self.steps.iter().filter(|step| step.verb.changes_something()).count()
    }
}

/// The plan that creates the desired state. With `prune`, entities that the project created earlier and no
/// longer contains are deleted.
pub(crate) async fn plan(
    client: &Client,
    namespace: &str,
    there: &There,
    wanted: Wanted,
    project: Option<&str>,
    prune: bool,
    problems: &mut Problems,
) -> Result<Plan, Failure> {
    let gone = match (project, prune) {
        (Some(project), true) => surplus(there, &wanted.entities, project),
        _ => Vec::new(),
    };
    for Reference { at, to, similar } in &wanted.references {
        let checked = match gone.iter().find(|(what, name)| is_referred_to(to, *what, name, namespace)) {
            Some((_, name)) => Err(Failure::usage(format!(
                "{name} is not in the manifest any more, so --prune would delete it"
            ))
            .hint("keep it in the manifest, or change what refers to it")),
            None => there.check(client, namespace, to).await,
        };
        match (checked, similar) {
            (Ok(()), _) => {}
            (Err(failure), similar) if failure.exit == Exit::Usage => {
                let hint = similar.as_ref().map(|one| format!("did you mean '{one}'?"));
                let hint = hint.or(failure.hint);
                problems.failed(at.line, &at.key, Failure { hint, ..Failure::usage(failure.message) });
            }
            (Err(failure), _) => return Err(failure),
        }
    }
    let mut plan = Plan { project: project.map(str::to_owned), steps: Vec::new() };
    for entity in wanted.entities {
        let existing = match there.find(entity.what, &entity.name) {
            Some(what) => there
                .details(client, what, &entity.name, &entity.facts)
                .await?
                .map(|existing| (what, existing)),
            None => None,
        };
        let named_so = existing.as_ref().map(|(what, _)| *what);
        check_sorts(&entity, named_so.or_else(|| there.other(entity.what, &entity.name)), problems);
        plan.steps.push(step(entity.of_project(project), existing));
    }
    plan.steps.extend(deletions(there, gone));
    Ok(plan)
}

/// The plan that deletes a manifest's entities. Those of another project are kept.
pub(crate) async fn removal(there: &There, wanted: Wanted, project: Option<&str>) -> Plan {
    let mut gone = Vec::new();
    let mut kept = Vec::new();
    for entity in wanted.entities {
        let Some(what) = there.find(entity.what, &entity.name) else { continue };
        let annotations = match what {
            What::Api => there.apis.get(&entity.name).map(|existing| &existing.annotations),
            What::Package | What::Binding => {
                there.packages.get(&entity.name).map(|listed| &listed.annotations)
            }
            What::Function | What::Sequence => {
                there.actions.get(&entity.name).map(|listed| &listed.annotations)
            }
            What::Trigger => there.triggers.get(&entity.name).map(|listed| &listed.annotations),
            What::Rule => there.rules.get(&entity.name).map(|listed| &listed.annotations),
        };
        match annotations.and_then(project_of).filter(|owner| Some(*owner) != project) {
            Some(owner) => kept.push(Step {
                verb: Verb::Keep(format!("it belongs to the project {owner}")),
                what,
                name: entity.name,
                entity: None,
                existing: None,
            }),
            None => gone.push((what, entity.name)),
        }
    }
    let mut steps = deletions(there, gone);
    steps.extend(kept);
    Plan { project: project.map(str::to_owned), steps }
}

/// Refuses changes of type that the server cannot make. `existing` is what has the name.
fn check_sorts(entity: &Entity, existing: Option<What>, problems: &mut Problems) {
    let Some(existing) = existing.filter(|existing| *existing != entity.what) else { return };
    let (is, command) = match (existing, entity.what) {
        (What::Function, What::Sequence) | (What::Sequence, What::Function) | (What::Api, _) => return,
        (What::Package, _) => ("a package", "package delete"),
        (What::Binding, _) => ("a binding", "package delete"),
        (What::Function, _) => ("a function", "rm"),
        (What::Sequence, _) => ("a sequence", "sequence rm"),
        (What::Trigger, _) => ("a trigger", "trigger delete"),
        (What::Rule, _) => ("a rule", "rule delete"),
    };
    let what = format!("'{}' is {is} on the server, and does not become another", entity.name);
    let next = format!("delete it first: flint {command} '{}'", entity.name);
    problems.error(entity.at.line, &entity.at.key, what, &next);
}

/// The step that leads to the desired entity.
pub(crate) fn step(entity: Entity, existing: Option<(What, Existing)>) -> Step {
    let (what, name) = (entity.what, entity.name.clone());
    let verb = match &existing {
        None => Verb::Create,
        Some((_, existing)) => {
            let mut old = existing.facts.clone();
            // Without a project name, ownership is left as it is.
            if !entity.facts.contains_key(&Field::Own("project")) {
                old.remove(&Field::Own("project"));
            }
            match diff(&old, &entity.facts) {
                changes if changes.is_empty() => Verb::Unchanged,
                changes => Verb::Update(changes),
            }
        }
    };
    Step { verb, what, name, entity: Some(entity), existing }
}

/// Entities created by the project that it no longer contains.
fn surplus(there: &There, wanted: &[Entity], project: &str) -> Vec<(What, String)> {
    let same_names = |what: What| match what {
        What::Binding => What::Package,
        What::Sequence => What::Function,
        other => other,
    };
    let kept: BTreeSet<_> =
        wanted.iter().map(|entity| (same_names(entity.what), entity.name.as_str())).collect();
    let listed = [&there.packages, &there.actions, &there.triggers, &there.rules].into_iter().flatten();
    let listed = listed.map(|(name, listed)| (listed.what, name, project_of(&listed.annotations)));
    let apis = there.apis.iter().map(|(name, api)| (What::Api, name, api.project()));
    listed
        .chain(apis)
        .filter(|(what, name, owner)| {
            *owner == Some(project) && !kept.contains(&(same_names(*what), name.as_str()))
        })
        .map(|(what, name, _)| (what, name.clone()))
        .collect()
}

/// Whether a reference leads to an entity of one's own.
fn is_referred_to(to: &To, what: What, name: &str, namespace: &str) -> bool {
    match to {
        To::Action { target, .. } => {
            matches!(what, What::Function | What::Sequence)
                && target.namespace == namespace
                && target.local() == name
        }
        To::Package { namespace: owner, name: package } => {
            what == What::Package && owner == namespace && package == name
        }
        To::Trigger(trigger) => what == What::Trigger && trigger == name,
    }
}

/// Deletion steps, referring entities first. A package is kept if anything is left in it.
fn deletions(there: &There, mut gone: Vec<(What, String)>) -> Vec<Step> {
    gone.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let leaving: BTreeSet<_> = gone
        .iter()
        .filter(|(what, _)| matches!(what, What::Function | What::Sequence))
        .map(|(_, name)| name.clone())
        .collect();
    let documents: BTreeSet<_> =
        gone.iter().filter_map(|(_, name)| name.strip_prefix(DOCUMENT)).map(str::to_owned).collect();
    let of_document =
        |name: &str| name.split(' ').nth(1).is_some_and(|base| documents.contains(&format!(" {base}")));
    gone.iter()
        // An API that is deleted as a whole includes its operations.
        .filter(|(what, name)| *what != What::Api || name.starts_with(DOCUMENT) || !of_document(name))
        .map(|(what, name)| {
            let inside = format!("{name}/");
            let left = there
                .actions
                .keys()
                .filter(|action| action.starts_with(&inside) && !leaving.contains(*action))
                .count();
            let verb = match (what, left) {
                (What::Package, 1) => Verb::Keep("an action is left in it".to_owned()),
                (What::Package, left) if left > 1 => Verb::Keep(format!("{left} actions are left in it")),
                _ => Verb::Delete,
            };
            let listed = match what {
                What::Trigger => there.triggers.get(name),
                _ => None,
            };
            let existing = listed
                .map(|listed| Existing { annotations: listed.annotations.clone(), ..Existing::default() });
            Step {
                verb,
                what: *what,
                name: name.clone(),
                entity: None,
                existing: existing.map(|existing| (*what, existing)),
            }
        })
        .collect()
}
