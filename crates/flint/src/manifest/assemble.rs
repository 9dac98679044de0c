//! Assembles the entities of a manifest in the order of their creation. References are resolved in the
//! manifest, or noted to be checked on the server.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    entity::{self, Entity, Operation, What, provider},
    function::{self, DefaultLimits},
    kinds::Kinds,
    model::{At, Package, Project},
    problems::{Problems, meant},
    target::{Target, local},
};
use crate::package;

/// The facts about the server that this needs.
#[derive(Debug, Default)]
pub(crate) struct Basics {
    pub(crate) namespace: String,
    pub(crate) kinds: Kinds,
    pub(crate) defaults: DefaultLimits,
}

/// A reference to something that the manifest does not create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) at: At,
    pub(crate) to: To,
    /// A similar name in the manifest.
    pub(crate) similar: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Package { namespace: String, name: String },
    Trigger(String),
    Action { target: Target, web: bool },
}

/// The desired state of the server.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// In the order of their creation.
    pub(crate) entities: Vec<Entity>,
    pub(crate) references: Vec<Reference>,
}

/// Of an API; not among the names of other entities.
const PATH_AND_METHOD: &str = "a path and method";

/// Packed actions by name.
pub(crate) type Packed = BTreeMap<String, package::Package>;

/// Makes actions behind APIs web actions, which an API requires, as wskdeploy does.
pub(crate) fn open_for_apis(project: &mut Project, own: &str, problems: &mut Problems) {
    let mut behind = BTreeSet::new();
    for package in &project.packages {
        for operation in &package.apis {
            if let Ok(target) = Target::parse(&operation.action, package.name.as_deref(), own)
                && target.namespace == own
            {
                behind.insert(target.local());
            }
        }
    }
    for package in &mut project.packages {
        let name = package.name.clone();
        let actions = package.actions.iter_mut().map(|one| (&one.name, &one.at, &mut one.annotations));
        let sequences = package.sequences.iter_mut().map(|one| (&one.name, &one.at, &mut one.annotations));
        for (own_name, at, annotations) in actions.chain(sequences) {
            let is_open = annotations.get("web-export") == Some(&Value::Bool(true));
            if behind.contains(&local(name.as_deref(), own_name)) && !is_open {
                problems.warn(
                    at.line,
                    &at.key,
                    "it becomes a web action, because an API stands in front of it",
                    "write web: true",
                );
                annotations.insert("web-export".to_owned(), true.into());
                annotations.entry("raw-http").or_insert(false.into());
                annotations.entry("final").or_insert(true.into());
            }
        }
    }
}

/// The desired state. `packed` contains the code of actions by name; without it they are only named.
pub(crate) fn assemble(
    project: &Project,
    packed: Option<Packed>,
    basics: &Basics,
    problems: &mut Problems,
) -> Wanted {
    let mut assembly = Assembly::new(project, basics);
    assembly.check_names(problems);
    assembly.packages(problems);
    assembly.functions(packed, problems);
    assembly.sequences(problems);
    assembly.triggers_and_rules(problems);
    assembly.apis(problems);
    assembly.wanted
}

struct Assembly<'a> {
    project: &'a Project,
    basics: &'a Basics,
    /// The manifest's bindings and their providers.
    bindings: BTreeMap<&'a str, (&'a str, &'a str)>,
    /// The manifest's actions and sequences.
    actions: BTreeSet<String>,
    triggers: BTreeSet<&'a str>,
    wanted: Wanted,
}

impl<'a> Assembly<'a> {
    fn new(project: &'a Project, basics: &'a Basics) -> Self {
        let packages = || project.packages.iter();
        let names = |package: &'a Package| {
            let actions = package.actions.iter().map(|one| &one.name);
            let names = actions.chain(package.sequences.iter().map(|one| &one.name));
            names.map(|name| local(package.name.as_deref(), name)).collect::<Vec<_>>()
        };
        let dependencies = packages().flat_map(|package| &package.dependencies);
        Self {
            project,
            basics,
            bindings: dependencies.map(|one| (one.name.as_str(), provider(one, &basics.namespace))).collect(),
            actions: packages().flat_map(names).collect(),
            triggers: packages().flat_map(|package| &package.triggers).map(|one| one.name.as_str()).collect(),
            wanted: Wanted::default(),
        }
    }

    /// Refuses duplicate names. Packages, actions outside of them, triggers and rules share theirs.
    fn check_names(&self, problems: &mut Problems) {
        let mut seen: BTreeMap<(bool, String), (&str, &At)> = BTreeMap::new();
        let mut check = |sort: &'static str, name: String, at: &'a At| {
            let key = (sort == PATH_AND_METHOD, name);
            match seen.get(&key) {
                Some((first, its)) => {
                    let what = format!("there is {first} of this name already, in line {}", its.line);
                    let next = match *first == sort {
                        true => "give one of them another name",
                        false => {
                            "give one of them another name: packages, actions, triggers and rules share names"
                        }
                    };
                    problems.error(at.line, &at.key, what, next);
                }
                None => drop(seen.insert(key, (sort, at))),
            }
        };
        for package in &self.project.packages {
            let name = package.name.as_deref();
            if let Some(name) = name {
                check("a package", name.to_owned(), &package.at);
            }
            package.dependencies.iter().for_each(|one| check("a package", one.name.clone(), &one.at));
            package.actions.iter().for_each(|one| check("an action", local(name, &one.name), &one.at));
            package.sequences.iter().for_each(|one| check("an action", local(name, &one.name), &one.at));
            package.triggers.iter().for_each(|one| check("a trigger", one.name.clone(), &one.at));
            package.rules.iter().for_each(|one| check("a rule", one.name.clone(), &one.at));
            for one in &package.apis {
                let name = entity::operation_name(&one.method, &one.base_path, &one.path);
                check(PATH_AND_METHOD, name, &one.at);
            }
        }
    }

    fn packages(&mut self, problems: &mut Problems) {
        let own = &self.basics.namespace;
        for package in &self.project.packages {
            if let Some(name) = &package.name {
                self.wanted.entities.push(entity::package(name, package));
            }
        }
        for dependency in self.project.packages.iter().flat_map(|package| &package.dependencies) {
            let (namespace, name) = provider(dependency, own);
            let is_made =
                namespace == own && self.project.packages.iter().any(|one| one.name.as_deref() == Some(name));
            if namespace == own && self.bindings.contains_key(name) {
                let what = format!("'{name}' is a binding itself, and bindings do not stand for bindings");
                problems.error(
                    dependency.at.line,
                    &dependency.at.key,
                    what,
                    "name the package that it stands for",
                );
            } else if !is_made {
                let to = To::Package { namespace: namespace.to_owned(), name: name.to_owned() };
                self.wanted.references.push(Reference { at: dependency.at.clone(), to, similar: None });
            }
            self.wanted.entities.push(entity::binding(dependency, own));
        }
    }

    fn functions(&mut self, mut packed: Option<Packed>, problems: &mut Problems) {
        for package in &self.project.packages {
            for action in &package.actions {
                let name = local(package.name.as_deref(), &action.name);
                let Some(packed) = &mut packed else {
                    self.wanted.entities.push(entity::named(What::Function, name, &action.at));
                    continue;
                };
                // Packing failed, which is reported already.
                let Some(code) = packed.remove(&name) else { continue };
                match function::entity(action, code, &self.basics.kinds, self.basics.defaults) {
                    Ok(entity) => self.wanted.entities.push(entity),
                    Err(failure) => problems.failed(action.at.line, &action.at.key, failure),
                }
            }
        }
    }

    /// Sequences, each after those that it calls.
    fn sequences(&mut self, problems: &mut Problems) {
        let mut open: Vec<(Entity, Vec<String>)> = Vec::new();
        for package in &self.project.packages {
            for sequence in &package.sequences {
                let name = package.name.as_deref();
                let targets: Option<Vec<_>> = sequence
                    .components
                    .iter()
                    .map(|text| self.action(text, name, &sequence.at, false, problems))
                    .collect();
                let Some(targets) = targets else { continue };
                let calls = targets.iter().filter_map(|target| self.made(target)).collect();
                open.push((entity::sequence(sequence, name, &targets), calls));
            }
        }
        while !open.is_empty() {
            let waiting: BTreeSet<String> = open.iter().map(|(entity, _)| entity.name.clone()).collect();
            let (ready, rest): (Vec<_>, Vec<_>) =
                open.into_iter().partition(|(_, calls)| !calls.iter().any(|name| waiting.contains(name)));
            if ready.is_empty() {
                let round = round_of(&rest);
                let at = &rest[0].0.at;
                let what = format!("sequences call each other in a circle: {}", round.join(" → "));
                problems.error(at.line, &at.key, what, "take one of them out of another's actions");
                return;
            }
            self.wanted.entities.extend(ready.into_iter().map(|(entity, _)| entity));
            open = rest;
        }
    }

    fn triggers_and_rules(&mut self, problems: &mut Problems) {
        let own = self.basics.namespace.as_str();
        for package in &self.project.packages {
            for trigger in &package.triggers {
                let feed = match &trigger.feed {
                    // A feed is rarely in the trigger's own package, but may be.
                    Some(text) => {
                        match self.action(text, package.name.as_deref(), &trigger.at, false, problems) {
                            Some(feed) => Some(feed),
                            None => continue,
                        }
                    }
                    None => None,
                };
                if let Some(input) = trigger.inputs.iter().find(|input| input.init) {
                    problems.error(
                        input.line,
                        &trigger.at.key,
                        "inputs of triggers do not go to an environment",
                        "remove init: true",
                    );
                }
                self.wanted.entities.push(entity::trigger(trigger, feed));
            }
        }
        for package in &self.project.packages {
            for rule in &package.rules {
                let trigger = rule
                    .trigger
                    .strip_prefix("/_/")
                    .or(rule.trigger.strip_prefix(&format!("/{own}/")))
                    .unwrap_or(&rule.trigger);
                if trigger.contains('/') {
                    let what = format!("'{}' is not a trigger of this namespace", rule.trigger);
                    problems.error(rule.at.line, &rule.at.key, what, "write the trigger's name");
                    continue;
                }
                let Some(action) =
                    self.action(&rule.action, package.name.as_deref(), &rule.at, false, problems)
                else {
                    continue;
                };
                if !self.triggers.contains(trigger) {
                    let to = To::Trigger(trigger.to_owned());
                    let similar = meant(trigger, self.triggers.iter().copied()).map(str::to_owned);
                    self.wanted.references.push(Reference { at: rule.at.clone(), to, similar });
                }
                self.wanted.entities.push(entity::rule(rule, trigger, &action, own));
            }
        }
    }

    fn apis(&mut self, problems: &mut Problems) {
        for package in &self.project.packages {
            for api in &package.apis {
                let Some(action) = self.action(&api.action, package.name.as_deref(), &api.at, true, problems)
                else {
                    continue;
                };
                let secret = self.made(&action).and_then(|name| {
                    let made = self.wanted.entities.iter().find(|one| {
                        one.name == name && matches!(one.what, What::Function | What::Sequence)
                    })?;
                    made.annotations
                        .get("require-whisk-auth")
                        .filter(|value| value.is_string() || value.is_number())
                        .cloned()
                });
                let operation = Operation {
                    api: api.api.clone(),
                    base_path: api.base_path.clone(),
                    path: api.path.clone(),
                    method: api.method.clone(),
                    action,
                    response: api.response.clone(),
                    secret,
                };
                self.wanted.entities.push(entity::operation(&api.at, operation));
            }
        }
    }

    /// Resolves an action's name. One that the manifest does not create is noted as a reference.
    fn action(
        &mut self,
        text: &str,
        package: Option<&str>,
        at: &At,
        web: bool,
        problems: &mut Problems,
    ) -> Option<Target> {
        let target = match Target::parse(text, package, &self.basics.namespace) {
            Ok(target) => target,
            Err(why) => {
                problems.error(at.line, &at.key, why, "write NAME, PACKAGE/NAME or /NAMESPACE/PACKAGE/NAME");
                return None;
            }
        };
        if self.made(&target).is_some() {
            return Some(target);
        }
        let similar = meant(&target.local(), self.actions.iter().map(String::as_str)).map(str::to_owned);
        let to = To::Action { target: self.through_binding(&target), web };
        self.wanted.references.push(Reference { at: at.clone(), to, similar });
        Some(target)
    }

    /// The manifest's own entity that a target refers to, also through a binding to one of its packages.
    fn made(&self, target: &Target) -> Option<String> {
        let target = self.through_binding(target);
        let local = target.local();
        (target.namespace == self.basics.namespace && self.actions.contains(&local)).then_some(local)
    }

    fn through_binding(&self, target: &Target) -> Target {
        let binding = target.package.as_deref().filter(|_| target.namespace == self.basics.namespace);
        match binding.and_then(|package| self.bindings.get(package)) {
            Some((namespace, package)) => Target {
                namespace: (*namespace).to_owned(),
                package: Some((*package).to_owned()),
                name: target.name.clone(),
            },
            None => target.clone(),
        }
    }
}

/// The names in a cycle of sequences.
fn round_of(open: &[(Entity, Vec<String>)]) -> Vec<String> {
    let calls = |name: &str| {
        let (_, calls) = open.iter().find(|(entity, _)| entity.name == name)?;
        calls.iter().find(|call| open.iter().any(|(entity, _)| entity.name == **call)).cloned()
    };
    let mut way = vec![open[0].0.name.clone()];
    while let Some(next) = way.last().and_then(|last| calls(last)) {
        let known = way.iter().position(|name| *name == next);
        way.push(next);
        if let Some(start) = known {
            return way.split_off(start);
        }
    }
    way
}
