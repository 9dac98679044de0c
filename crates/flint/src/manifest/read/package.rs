//! Reads packages and their dependencies.

use super::Reader;
use crate::manifest::{
    model::{Dependency, Package},
    yaml::{Entry, Node},
};

const PACKAGE: [&str; 22] = [
    "name",
    "version",
    "license",
    "description",
    "repositories",
    "namespace",
    "credential",
    "apiHost",
    "inputs",
    "parameters",
    "annotations",
    "public",
    "shared",
    "publish",
    "dependencies",
    "actions",
    "sequences",
    "triggers",
    "feeds",
    "rules",
    "apis",
    "compositions",
];
const DEPENDENCY: [&str; 6] = ["location", "version", "inputs", "parameters", "annotations", "description"];

impl Reader<'_> {
    /// A package; without a name: no package.
    pub(super) fn package(&mut self, name: Option<String>, entry: &Entry, key: &str) -> Package {
        let node = &entry.value;
        let mut package = Package { at: self.at(entry, key), ..Package::default() };
        if self.map(node, key).is_none() {
            return package;
        }
        self.check_keys(node, &format!("{key}."), &PACKAGE);
        self.elsewhere(node, &format!("{key}."));
        for unsupported in ["feeds", "compositions"] {
            if let Some(node) = node.get(unsupported).filter(|node| !node.is_null()) {
                let next = match unsupported {
                    "feeds" => "name a feed with 'feed' below a trigger",
                    _ => "deploy the conductor as an action with the annotation conductor: true",
                };
                self.problems.warn(
                    node.line,
                    &format!("{key}.{unsupported}"),
                    "nothing is made of this key",
                    next,
                );
            }
        }
        package.inputs = self.inputs_of(node, key);
        package.annotations = self.annotations(node.get("annotations"), key);
        for flag in ["public", "shared", "publish"] {
            if let Some(node) = node.get(flag).filter(|node| !node.is_null()) {
                package.shared |= self.flag(node, &format!("{key}.{flag}")).unwrap_or_default();
            }
        }
        if name.is_none() && (!package.inputs.is_empty() || !package.annotations.is_empty() || package.shared)
        {
            let what =
                "'default' stands for no package, so it has no inputs, annotations or readers of its own";
            self.problems.error(
                entry.line,
                key,
                what,
                "give the package another name, or move them to its actions",
            );
        }
        package.dependencies = self.each(node, key, "dependencies", Self::dependency);
        let name_of = name.as_deref().unwrap_or_default().to_owned();
        package.actions =
            self.each(node, key, "actions", |reader, entry, key| reader.action(entry, key, &name_of));
        package.sequences = self.each(node, key, "sequences", Self::sequence);
        package.triggers = self.each(node, key, "triggers", Self::trigger);
        package.rules = self.each(node, key, "rules", Self::rule);
        package.apis = self.each(node, key, "apis", Self::api).into_iter().flatten().collect();
        package.name = name;
        package
    }

    /// Applies `read` to each entry of the map at `section`.
    fn each<T>(
        &mut self,
        node: &Node,
        key: &str,
        section: &str,
        mut read: impl FnMut(&mut Self, &Entry, &str) -> Option<T>,
    ) -> Vec<T> {
        let Some(node) = node.get(section) else { return Vec::new() };
        let key = format!("{key}.{section}");
        let entries = self.map(node, &key).unwrap_or_default();
        entries.iter().filter_map(|entry| read(self, entry, &format!("{key}.{}", entry.key))).collect()
    }

    fn dependency(&mut self, entry: &Entry, key: &str) -> Option<Dependency> {
        let (node, name) = (&entry.value, self.entity_name(&entry.key, entry.line, key)?);
        self.map(node, key)?;
        self.check_keys(node, &format!("{key}."), &DEPENDENCY);
        let Some(location) = node.get("location").filter(|node| !node.is_null()) else {
            self.problems.error(
                entry.line,
                key,
                "it has no location",
                "write location: /NAMESPACE/PACKAGE, a package of this server",
            );
            return None;
        };
        let line = location.line;
        let location = self.text(location, &format!("{key}.location"))?;
        let provider = self.provider(&location, line, &format!("{key}.location"))?;
        let inputs = self.inputs_of(node, key);
        let annotations = self.annotations(node.get("annotations"), key);
        Some(Dependency { name, at: self.at(entry, key), provider, inputs, annotations })
    }

    /// `/namespace/package`.
    fn provider(&mut self, location: &str, line: usize, key: &str) -> Option<String> {
        let trimmed = location.trim();
        if trimmed.contains("github.com") || trimmed.contains("://") {
            let what = format!(
                "{trimmed} is not a package of this server, and flint fetches no code from elsewhere"
            );
            let next = "clone the repository, deploy its manifest with flint deploy -f, and name what that makes: location: /_/PACKAGE";
            self.problems.error(line, key, what, next);
            return None;
        }
        let parts: Vec<_> = trimmed.trim_start_matches('/').split('/').collect();
        match parts.as_slice() {
            [namespace, package] if !namespace.is_empty() && !package.is_empty() => {
                Some(format!("/{namespace}/{package}"))
            }
            _ => {
                let what = format!("'{trimmed}' does not name a package");
                self.problems.error(line, key, what, "write /NAMESPACE/PACKAGE, for example /whisk.system/utils, or /_/PACKAGE for one of your own");
                None
            }
        }
    }
}
