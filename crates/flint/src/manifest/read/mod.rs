//! Reads the YAML tree of a manifest into the model: looks up keys, interpolates variables, and reports
//! problems with their lines.

mod action;
mod foreign;
mod inputs;
mod overlay;
mod package;
mod wiring;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{
    interpolate::Variables,
    model::{At, Project},
    problems::{Problems, meant},
    yaml::{self, Content, Entry, Node},
};

/// The reader of one file.
pub(crate) struct Reader<'a> {
    pub(crate) problems: Problems,
    pub(crate) variables: &'a mut Variables,
    /// The base of relative paths in the file.
    directory: PathBuf,
    /// Whether the code it names has to exist, and the variables in values to be set. Undeploying needs only
    /// names.
    pub(crate) needs_content: bool,
}

const TOP: [&str; 4] = ["project", "application", "packages", "package"];
const PROJECT: [&str; 11] = [
    "name",
    "packages",
    "package",
    "config",
    "inputs",
    "parameters",
    "namespace",
    "credential",
    "apiHost",
    "version",
    "description",
];

impl<'a> Reader<'a> {
    /// For the file at `path`.
    pub(crate) fn new(path: &Path, variables: &'a mut Variables) -> Self {
        let directory = path.parent().unwrap_or(Path::new("")).to_owned();
        Self { problems: Problems::of(path.display().to_string()), variables, directory, needs_content: true }
    }

    /// Reads a manifest.
    pub(crate) fn project(&mut self, text: &str) -> Project {
        let mut project = Project::default();
        let Some((head, place)) = self.top(text) else { return project };
        if let Some(name) = head.get("name").filter(|name| !name.is_null()) {
            project.name = self.name(name, &format!("{place}name"));
        }
        for key in ["inputs", "parameters"] {
            if let Some(node) = head.get(key) {
                for input in self.inputs(node, &format!("{place}{key}")) {
                    // A value from the command line counts as used here, even if nothing interpolates it.
                    let value = self.variables.given(&input.name).cloned().or(input.value);
                    match value.unwrap_or_default() {
                        // A name that is made of it cannot be known.
                        Value::Null if !self.needs_content => self.variables.leave_unset(&input.name),
                        value => self.variables.add_of_project(&input.name, value),
                    }
                }
            }
        }
        self.elsewhere(&head, &place);
        if let Some(node) = head.get("config").filter(|node| !node.is_null())
            && let Some(file) = self.text(node, &format!("{place}config"))
        {
            project.document = Some((self.directory.join(file), node.line));
        }
        for (name, entry, key) in self.packages(&head, &place) {
            let package = self.package(name, &entry, &key);
            project.packages.push(package);
        }
        if project.packages.is_empty() && project.document.is_none() && self.problems.is_fine() {
            self.problems.error(
                head.line,
                "packages",
                "there are no packages in it",
                "write packages: and below it a package with actions",
            );
        }
        project
    }

    /// The map that contains the packages, and the keys that lead to it.
    fn top(&mut self, text: &str) -> Option<(Node, String)> {
        if let Some((line, platform)) = foreign::platform_of(text) {
            let what = format!("it is {platform}, which is not supported yet");
            let next = "write a manifest with packages: and actions: (docs/manifests.md), or deploy each function with `flint deploy DIRECTORY`";
            self.problems.error(line, "", what, next);
            return None;
        }
        let root = match yaml::parse(text) {
            Ok(Some(root)) if !root.is_null() => root,
            Ok(_) => {
                self.problems.error(
                    1,
                    "",
                    "it is empty",
                    "write packages: and below it a package with actions",
                );
                return None;
            }
            Err(error) => {
                self.problems.error(error.line, "", error.what, error.next);
                return None;
            }
        };
        self.map(&root, "")?;
        let wrapper = TOP[..2].iter().find(|key| root.get(key).is_some_and(|node| !node.is_null()));
        match wrapper {
            Some(wrapper) => {
                self.check_keys(&root, "", &TOP);
                for other in &TOP[2..] {
                    if let Some(node) = root.get(other) {
                        let what = format!("it stands beside '{wrapper}', which has the packages");
                        self.problems.error(node.line, other, what, &format!("move it below '{wrapper}:'"));
                    }
                }
                let head = root.get(wrapper)?.clone();
                self.map(&head, wrapper)?;
                self.check_keys(&head, &format!("{wrapper}."), &PROJECT);
                Some((head, format!("{wrapper}.")))
            }
            None => {
                let known: Vec<_> = TOP.iter().chain(&PROJECT).copied().collect();
                self.check_keys(&root, "", &known);
                Some((root, String::new()))
            }
        }
    }

    /// Every package's name (`None`: no package) and contents, and the keys that lead to it.
    fn packages(&mut self, head: &Node, place: &str) -> Vec<(Option<String>, Entry, String)> {
        let mut found = Vec::new();
        if let Some(node) = head.get("packages").filter(|node| !node.is_null()) {
            let place = format!("{place}packages");
            for entry in self.map(node, &place).unwrap_or_default().to_vec() {
                let at = format!("{place}.{}", entry.key);
                let Some(name) = self.entity_name(&entry.key, entry.line, &at) else { continue };
                found.push(((name != DEFAULT).then_some(name), entry, at));
            }
        }
        if let Some(node) = head.get("package").filter(|node| !node.is_null()) {
            let at = format!("{place}package");
            if self.map(node, &at).is_some() {
                match node.get("name") {
                    Some(name) => {
                        if let Some(name) = self.name(name, &format!("{at}.name")) {
                            let entry = Entry { key: name.clone(), line: node.line, value: node.clone() };
                            found.push(((name != DEFAULT).then_some(name), entry, at));
                        }
                    }
                    None => self.problems.error(
                        node.line,
                        &at,
                        "it has no name",
                        "write name: below it, or packages: NAME: instead",
                    ),
                }
            }
        }
        for (at, (name, entry, key)) in found.iter().enumerate() {
            if found[..at].iter().any(|(other, ..)| other == name) {
                self.problems.error(
                    entry.line,
                    key,
                    "a package of this name is there already",
                    "give it another name, or join the two",
                );
            }
        }
        found
    }

    /// Warns that a manifest does not choose the server or the key.
    fn elsewhere(&mut self, node: &Node, place: &str) {
        for (key, option) in [("namespace", "--auth"), ("credential", "--auth"), ("apiHost", "--url")] {
            if let Some(node) = node.get(key).filter(|node| !node.is_null())
                && !matches!(&node.content, Content::Scalar { text, .. } if text.is_empty() || text == "_")
            {
                let what = "it is not looked at: the command line says where and with which key to deploy";
                self.problems.warn(node.line, &format!("{place}{key}"), what, &format!("use {option}"));
            }
        }
    }

    // Values at keys.

    /// The entries of a map; null counts as an empty one.
    fn map<'n>(&mut self, node: &'n Node, key: &str) -> Option<&'n [Entry]> {
        match &node.content {
            Content::Map(entries) => Some(entries),
            _ if node.is_null() => Some(&[]),
            _ => {
                self.problems.error(
                    node.line,
                    key,
                    format!("it is {}, not a map", node.sort()),
                    "write keys with values below it, indented",
                );
                None
            }
        }
    }

    /// A scalar's source text, interpolated.
    fn text(&mut self, node: &Node, key: &str) -> Option<String> {
        match &node.content {
            Content::Scalar { text, .. } => self.completed(text, node.line, key),
            _ => {
                self.problems.error(node.line, key, format!("it is {}, not a text", node.sort()), "");
                None
            }
        }
    }

    fn completed(&mut self, text: &str, line: usize, key: &str) -> Option<String> {
        match self.variables.interpolate(text) {
            Ok(text) => Some(text),
            Err(why) => {
                self.problems.error(line, key, why.what, &why.next);
                None
            }
        }
    }

    fn flag(&mut self, node: &Node, key: &str) -> Option<bool> {
        let said = match &node.content {
            Content::Scalar { value: Value::Bool(flag), .. } => Some(*flag),
            Content::Scalar { .. } => match self.text(node, key)?.to_ascii_lowercase().as_str() {
                "true" | "yes" => Some(true),
                "false" | "no" => Some(false),
                _ => None,
            },
            _ => None,
        };
        if said.is_none() {
            self.problems.error(node.line, key, "it is neither true nor false", "write true or false");
        }
        said
    }

    /// A value as JSON, with its texts interpolated; null for one that is not needed and not known.
    fn value(&mut self, node: &Node, key: &str) -> Value {
        match &node.content {
            Content::Scalar { text, value: Value::String(_) } => match self.needs_content {
                true => self.completed(text, node.line, key).into(),
                false => self.variables.interpolate(text).ok().into(),
            },
            Content::Scalar { value, .. } => value.clone(),
            Content::List(nodes) => {
                nodes.iter().enumerate().map(|(at, node)| self.value(node, &format!("{key}[{at}]"))).collect()
            }
            Content::Map(entries) => {
                let value = |entry: &Entry| {
                    (entry.key.clone(), self.value(&entry.value, &format!("{key}.{}", entry.key)))
                };
                entries.iter().map(value).collect::<Map<_, _>>().into()
            }
        }
    }

    /// A name of an entity.
    fn name(&mut self, node: &Node, key: &str) -> Option<String> {
        match &node.content {
            Content::Scalar { text, .. } => self.entity_name(text, node.line, key),
            _ => {
                self.problems.error(node.line, key, format!("it is {}, not a name", node.sort()), "");
                None
            }
        }
    }

    fn entity_name(&mut self, text: &str, line: usize, key: &str) -> Option<String> {
        let name = self.completed(text, line, key)?;
        match flint_model::EntityName::parse(&name) {
            Ok(_) => Some(name),
            Err(error) => {
                let what = format!("'{name}' cannot be a name: {error}");
                self.problems.error(
                    line,
                    key,
                    what,
                    "letters, digits, _ @ . & - and inner spaces are allowed, up to 256 characters",
                );
                None
            }
        }
    }

    fn annotations(&mut self, node: Option<&Node>, key: &str) -> Map<String, Value> {
        let Some(node) = node else { return Map::new() };
        let key = format!("{key}.annotations");
        let entries = self.map(node, &key).unwrap_or_default();
        let mut annotations = Map::new();
        for entry in entries {
            let key = format!("{key}.{}", entry.key);
            if SYSTEM_ANNOTATIONS.contains(&entry.key.as_str()) {
                self.problems.warn(
                    entry.line,
                    &key,
                    "it is left out: the server or flint says it",
                    "remove it",
                );
                continue;
            }
            let value = self.value(&entry.value, &key);
            annotations.insert(entry.key.clone(), value);
        }
        annotations
    }

    /// Warns of unknown keys.
    fn check_keys(&mut self, node: &Node, place: &str, known: &[&str]) {
        let Content::Map(entries) = &node.content else { return };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let next = meant(&entry.key, known.iter().copied()).map(|one| format!("did you mean '{one}'?"));
            let key = format!("{place}{}", entry.key);
            self.problems.warn(
                entry.line,
                &key,
                "this key is unknown, and nothing is made of it",
                next.as_deref().unwrap_or_default(),
            );
        }
    }

    fn at(&self, entry: &Entry, key: &str) -> At {
        At { line: entry.line, key: key.to_owned() }
    }
}

/// Stands for no package.
const DEFAULT: &str = "default";

/// Annotations written by the system.
pub(crate) const SYSTEM_ANNOTATIONS: [&str; 4] = ["exec", "binding", "whisk-managed", "flint-digest"];

#[cfg(test)]
mod tests;
