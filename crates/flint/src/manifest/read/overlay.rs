//! Deployment files: overrides of a manifest's inputs and annotations.

use serde_json::{Map, Value};

use super::Reader;
use crate::manifest::{
    inputs::Input,
    model::{At, Package, Project},
    problems::{Problems, meant},
    yaml::{Entry, Node},
};

const PACKAGE: [&str; 15] = [
    "name",
    "namespace",
    "credential",
    "apiHost",
    "version",
    "license",
    "description",
    "inputs",
    "parameters",
    "annotations",
    "actions",
    "triggers",
    "feeds",
    "rules",
    "sequences",
];
const ENTITY: [&str; 7] =
    ["inputs", "parameters", "annotations", "namespace", "credential", "version", "description"];

/// The contents of a deployment file.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    packages: Vec<OfPackage>,
}

#[derive(Debug)]
struct OfPackage {
    name: Option<String>,
    own: Other,
    actions: Vec<(String, Other)>,
    triggers: Vec<(String, Other)>,
}

/// Overrides of one entity.
#[derive(Debug)]
struct Other {
    at: At,
    inputs: Vec<Input>,
    annotations: Map<String, Value>,
}

impl Reader<'_> {
    /// Reads a deployment file.
    pub(crate) fn overlay(&mut self, text: &str) -> Overlay {
        let mut overlay = Overlay::default();
        let Some((head, place)) = self.top(text) else { return overlay };
        self.elsewhere(&head, &place);
        for (name, entry, key) in self.packages(&head, &place) {
            if self.map(&entry.value, &key).is_none() {
                continue;
            }
            self.check_keys(&entry.value, &format!("{key}."), &PACKAGE);
            overlay.packages.push(OfPackage {
                name,
                own: self.other(&entry, &key),
                actions: self.others(&entry.value, &format!("{key}.actions"), "actions"),
                triggers: self.others(&entry.value, &format!("{key}.triggers"), "triggers"),
            });
        }
        overlay
    }

    fn others(&mut self, node: &Node, key: &str, section: &str) -> Vec<(String, Other)> {
        let Some(node) = node.get(section) else { return Vec::new() };
        let mut others = Vec::new();
        for entry in self.map(node, key).unwrap_or_default() {
            let key = format!("{key}.{}", entry.key);
            if self.map(&entry.value, &key).is_none() {
                continue;
            }
            self.check_keys(&entry.value, &format!("{key}."), &ENTITY);
            if let Some(name) = self.entity_name(&entry.key, entry.line, &key) {
                others.push((name, self.other(entry, &key)));
            }
        }
        others
    }

    fn other(&mut self, entry: &Entry, key: &str) -> Other {
        let inputs = self.inputs_of(&entry.value, key);
        let annotations = self.annotations(entry.value.get("annotations"), key);
        Other { at: self.at(entry, key), inputs, annotations }
    }
}

impl Overlay {
    /// Applies the overrides. Those of entities that the manifest does not have are reported.
    pub(crate) fn apply(self, project: &mut Project, problems: &mut Problems) {
        for of_package in self.packages {
            let at = &of_package.own.at;
            let Some(package) = project.packages.iter_mut().find(|package| package.name == of_package.name)
            else {
                problems.warn(
                    at.line,
                    &at.key,
                    "the manifest has no such package",
                    "its inputs are not used",
                );
                continue;
            };
            of_package.own.put(&mut package.inputs, &mut package.annotations, problems);
            let Package { actions, triggers, .. } = package;
            for (name, other) in of_package.actions {
                match actions.iter_mut().find(|action| action.name == name) {
                    Some(action) => other.put(&mut action.inputs, &mut action.annotations, problems),
                    None => {
                        other.missing("action", &name, actions.iter().map(|one| one.name.as_str()), problems)
                    }
                }
            }
            for (name, other) in of_package.triggers {
                match triggers.iter_mut().find(|trigger| trigger.name == name) {
                    Some(trigger) => other.put(&mut trigger.inputs, &mut trigger.annotations, problems),
                    None => other.missing(
                        "trigger",
                        &name,
                        triggers.iter().map(|one| one.name.as_str()),
                        problems,
                    ),
                }
            }
        }
    }
}

impl Other {
    fn put(self, inputs: &mut Vec<Input>, annotations: &mut Map<String, Value>, problems: &mut Problems) {
        for new in self.inputs {
            match inputs.iter_mut().find(|old| old.name == new.name) {
                Some(old) => {
                    if let Err(why) = old.set(new.value.unwrap_or_default()) {
                        problems.error(
                            new.line,
                            &format!("{}.inputs.{}", self.at.key, new.name),
                            why,
                            "the type is the manifest's",
                        );
                    }
                }
                None => inputs.push(new),
            }
        }
        annotations.extend(self.annotations);
    }

    fn missing<'a>(
        &self,
        what: &str,
        name: &str,
        known: impl Iterator<Item = &'a str>,
        problems: &mut Problems,
    ) {
        let next = meant(name, known)
            .map_or_else(|| "its inputs are not used".to_owned(), |one| format!("did you mean '{one}'?"));
        problems.warn(
            self.at.line,
            &self.at.key,
            format!("the manifest's package has no such {what}"),
            &next,
        );
    }
}
