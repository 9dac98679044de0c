//! Reads sequences, triggers, rules and APIs.

use super::Reader;
use crate::manifest::{
    model::{Operation, Rule, Sequence, Trigger},
    read::action::web_annotations,
    yaml::{Content, Entry, Node},
};

const SEQUENCE: [&str; 8] =
    ["actions", "annotations", "web", "web-export", "raw-http", "final", "version", "description"];
const TRIGGER: [&str; 10] = [
    "feed",
    "source",
    "inputs",
    "parameters",
    "annotations",
    "namespace",
    "credential",
    "version",
    "description",
    "events",
];
const RULE: [&str; 6] = ["trigger", "action", "rule", "annotations", "version", "description"];
const OPERATION: [&str; 2] = ["method", "response"];
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "patch", "head", "options"];
const RESPONSES: [&str; 5] = ["http", "json", "html", "svg", "text"];

impl Reader<'_> {
    pub(super) fn sequence(&mut self, entry: &Entry, key: &str) -> Option<Sequence> {
        let (node, name) = (&entry.value, self.entity_name(&entry.key, entry.line, key)?);
        self.map(node, key)?;
        self.check_keys(node, &format!("{key}."), &SEQUENCE);
        let actions = format!("{key}.actions");
        let components: Vec<String> = match node.get("actions").map(|node| (&node.content, node)) {
            Some((Content::List(nodes), _)) => {
                nodes.iter().filter_map(|node| self.text(node, &actions)).collect()
            }
            Some((_, node)) if !node.is_null() => {
                self.text(node, &actions)?.split(',').map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        let components: Vec<_> = components.iter().map(|one| one.trim().to_owned()).collect();
        if components.is_empty() || components.iter().any(String::is_empty) {
            let what = if components.is_empty() {
                "it names no actions"
            } else {
                "a name between its commas is empty"
            };
            self.problems.error(node.line, &actions, what, "write actions: first, second");
            return None;
        }
        let annotations = self.annotations(node.get("annotations"), key);
        let annotations = web_annotations(self, node, key, annotations)?;
        Some(Sequence { name, at: self.at(entry, key), components, annotations })
    }

    pub(super) fn trigger(&mut self, entry: &Entry, key: &str) -> Option<Trigger> {
        let (node, name) = (&entry.value, self.entity_name(&entry.key, entry.line, key)?);
        self.map(node, key)?;
        self.check_keys(node, &format!("{key}."), &TRIGGER);
        let mut feed = None;
        for field in ["feed", "source"] {
            if let Some(node) = node.get(field).filter(|node| !node.is_null()) {
                let key = format!("{key}.{field}");
                if field == "source" {
                    self.problems.warn(node.line, &key, "'source' is an old word for 'feed'", "write feed:");
                }
                feed = feed.or(self.text(node, &key).filter(|feed| !feed.is_empty()));
            }
        }
        let inputs = self.inputs_of(node, key);
        let mut annotations = self.annotations(node.get("annotations"), key);
        annotations.remove("feed");
        Some(Trigger { name, at: self.at(entry, key), feed, inputs, annotations })
    }

    pub(super) fn rule(&mut self, entry: &Entry, key: &str) -> Option<Rule> {
        let (node, name) = (&entry.value, self.entity_name(&entry.key, entry.line, key)?);
        self.map(node, key)?;
        self.check_keys(node, &format!("{key}."), &RULE);
        let mut named = |field: &str| {
            let node = node.get(field).filter(|node| !node.is_null());
            match node {
                Some(node) => self.text(node, &format!("{key}.{field}")).map(|text| text.trim().to_owned()),
                None => {
                    self.problems.error(
                        entry.line,
                        key,
                        format!("it has no {field}"),
                        &format!("write {field}: NAME"),
                    );
                    None
                }
            }
        };
        let (trigger, action) = (named("trigger"), named("action"));
        let annotations = self.annotations(node.get("annotations"), key);
        Some(Rule { name, at: self.at(entry, key), trigger: trigger?, action: action?, annotations })
    }

    /// `API: BASE: PATH: ACTION: METHOD`, or instead of the method a map with `method` and `response`.
    pub(super) fn api(&mut self, entry: &Entry, key: &str) -> Option<Vec<Operation>> {
        let api = self.completed(&entry.key, entry.line, key)?;
        let mut operations = Vec::new();
        for base in self.map(&entry.value, key)? {
            let key = format!("{key}.{}", base.key);
            for path in self.map(&base.value, &key).unwrap_or_default() {
                let key = format!("{key}.{}", path.key);
                for action in self.map(&path.value, &key).unwrap_or_default() {
                    let key = format!("{key}.{}", action.key);
                    let Some((method, response)) = self.endpoint(&action.value, &key) else { continue };
                    let slashed = |text: &str| format!("/{}", text.trim_start_matches('/'));
                    let (Some(base_path), Some(relative), Some(name)) = (
                        self.completed(&base.key, base.line, &key),
                        self.completed(&path.key, path.line, &key),
                        self.completed(&action.key, action.line, &key),
                    ) else {
                        continue;
                    };
                    operations.push(Operation {
                        api: api.clone(),
                        at: self.at(action, &key),
                        base_path: match slashed(&base_path).trim_end_matches('/') {
                            "" => "/".to_owned(),
                            path => path.to_owned(),
                        },
                        path: slashed(&relative),
                        method,
                        action: name,
                        response,
                    });
                }
            }
        }
        Some(operations)
    }

    fn endpoint(&mut self, node: &Node, key: &str) -> Option<(String, String)> {
        let (method, response) = match &node.content {
            Content::Map(_) => {
                self.check_keys(node, &format!("{key}."), &OPERATION);
                let Some(method) = node.get("method") else {
                    self.problems.error(node.line, key, "it has no method", "write method: GET");
                    return None;
                };
                let method = self.text(method, &format!("{key}.method"))?;
                let response = match node.get("response").filter(|node| !node.is_null()) {
                    Some(response) => self.text(response, &format!("{key}.response"))?,
                    None => "http".to_owned(),
                };
                (method, response)
            }
            _ => (self.text(node, key)?, "http".to_owned()),
        };
        let (method, response) = (method.trim().to_ascii_lowercase(), response.trim().to_ascii_lowercase());
        for (given, known, what) in
            [(&method, &METHODS[..], "method"), (&response, &RESPONSES[..], "response")]
        {
            if !known.contains(&given.as_str()) {
                self.problems.error(
                    node.line,
                    key,
                    format!("'{given}' is not a {what} of an API"),
                    &format!("write one of {}", known.join(", ")),
                );
                return None;
            }
        }
        Some((method, response))
    }
}
