//! Reads actions.

use std::num::NonZeroU32;

use flint_model::Contract;
use serde_json::{Map, Value, json};

use super::Reader;
use crate::{
    cli::{FunctionArgs, cpu_millis, duration, mebibytes},
    manifest::{
        model::{Action, Source},
        yaml::{Content, Entry, Node},
    },
};

const ACTION: [&str; 32] = [
    "function",
    "location",
    "code",
    "runtime",
    "kind",
    "main",
    "inputs",
    "parameters",
    "outputs",
    "limits",
    "annotations",
    "web",
    "web-export",
    "raw-http",
    "final",
    "feed",
    "conductor",
    "docker",
    "native",
    "include",
    "exclude",
    "contract",
    "isolation",
    "start",
    "reuse",
    "network",
    "version",
    "description",
    "namespace",
    "credential",
    "exposedUrl",
    "name",
];
const LIMITS: [&str; 12] = [
    "timeout",
    "memory",
    "memorySize",
    "logs",
    "logSize",
    "concurrency",
    "cpu",
    "codeSize",
    "parameterSize",
    "concurrentActivations",
    "userInvocationRate",
    "instances",
];
/// Limits of the whole namespace, not of an action.
const NOT_OF_ACTIONS: [&str; 5] =
    ["codeSize", "parameterSize", "concurrentActivations", "userInvocationRate", "instances"];

impl Reader<'_> {
    /// An action of a package, whose name is empty for none.
    pub(super) fn action(&mut self, entry: &Entry, key: &str, package: &str) -> Option<Action> {
        let (node, name) = (&entry.value, self.entity_name(&entry.key, entry.line, key)?);
        self.map(node, key)?;
        self.check_keys(node, &format!("{key}."), &ACTION);
        for unsupported in ["include", "exclude"] {
            if let Some(node) = node.get(unsupported).filter(|node| !node.is_null()) {
                let next =
                    "put the files into the action's directory; its .flintignore names what is left out";
                self.problems.error(
                    node.line,
                    &format!("{key}.{unsupported}"),
                    "this is not supported",
                    next,
                );
            }
        }
        let source = self.source(node, entry.line, key);
        let mut function = FunctionArgs {
            name: Some(if package.is_empty() { name.clone() } else { format!("{package}/{name}") }),
            ..FunctionArgs::default()
        };
        self.runtime(node, key, &mut function);
        if let Some(node) = node.get("main").filter(|node| !node.is_null()) {
            function.main = self.text(node, &format!("{key}.main"));
        }
        self.strategy(node, key, &mut function);
        if let Some(node) = node.get("limits") {
            self.limits(node, &format!("{key}.limits"), &mut function);
        }
        let inputs = self.inputs_of(node, key);
        let mut annotations = self.annotations(node.get("annotations"), key);
        for flag in ["feed", "conductor"] {
            if let Some(node) = node.get(flag).filter(|node| !node.is_null())
                && self.flag(node, &format!("{key}.{flag}"))?
            {
                annotations.entry(flag).or_insert(true.into());
            }
        }
        let annotations = web_annotations(self, node, key, annotations)?;
        Some(Action { name, at: self.at(entry, key), source: source?, function, inputs, annotations })
    }

    fn source(&mut self, node: &Node, line: usize, key: &str) -> Option<Source> {
        let said = ["function", "location", "code"]
            .map(|name| Some((name, node.get(name).filter(|node| !node.is_null())?)));
        match said.into_iter().flatten().collect::<Vec<_>>().as_slice() {
            [("code", Node { content: Content::Scalar { text, .. }, .. })] => {
                Some(Source::Inline(text.clone()))
            }
            [(name, node)] => {
                let key = format!("{key}.{name}");
                let path = self.text(node, &key)?;
                if path.contains("://") || path.starts_with("github.com/") {
                    let next = "put the code beside the manifest, and name the file or directory";
                    self.problems.error(
                        node.line,
                        &key,
                        format!("flint fetches no code from elsewhere: {path}"),
                        next,
                    );
                    return None;
                }
                let path = self.directory.join(path.trim());
                if self.needs_content && !path.exists() {
                    let what = format!("there is no {}", path.display());
                    self.problems.error(
                        node.line,
                        &key,
                        what,
                        "paths are relative to the manifest's directory",
                    );
                    return None;
                }
                Some(Source::Path(path))
            }
            [] => {
                self.problems.error(
                    line,
                    key,
                    "it has no code",
                    "write function: FILE, a file, directory or archive beside the manifest",
                );
                None
            }
            [(one, _), (other, node), ..] => {
                let what = format!("it has both '{one}' and '{other}'");
                self.problems.error(node.line, key, what, "keep one of them");
                None
            }
        }
    }

    /// `runtime` or `kind`, `docker` and `native`.
    fn runtime(&mut self, node: &Node, key: &str, function: &mut FunctionArgs) {
        for name in ["runtime", "kind"] {
            if let Some(node) = node.get(name).filter(|node| !node.is_null()) {
                let text = self.text(node, &format!("{key}.{name}"));
                // The manifest specification writes versions as `nodejs@20`.
                function.kind = text.map(|text| text.trim().replacen('@', ":", 1));
            }
        }
        // `language:default` stands for none.
        function.kind = function.kind.take().filter(|kind| !kind.is_empty() && kind != "language:default");
        let native = match node.get("native").filter(|node| !node.is_null()) {
            Some(node) => self.flag(node, &format!("{key}.native")).unwrap_or_default(),
            None => false,
        };
        let mut contract = native.then_some(Contract::Skeleton);
        if let Some(node) = node.get("docker").filter(|node| !node.is_null()) {
            let key = format!("{key}.docker");
            let Some(image) = self.text(node, &key) else { return };
            match contract_of_image(&image) {
                Some(known) => contract = Some(known),
                None => {
                    let what = format!("'{image}' is a container image, and flint runs none");
                    let next = "name a runtime, or put the program as 'exec' into a directory and write native: true";
                    self.problems.error(node.line, &key, what, next);
                }
            }
        }
        if contract.is_some() {
            function.kind = Some("blackbox".to_owned());
            function.contract = contract;
        }
    }

    fn strategy(&mut self, node: &Node, key: &str, function: &mut FunctionArgs) {
        function.contract = self.word(node, key, "contract").or(function.contract);
        function.isolation = self.word(node, key, "isolation");
        function.start = self.word(node, key, "start");
        function.reuse = self.word(node, key, "reuse");
        function.network = self.word(node, key, "network");
    }

    /// Parses one of Flint's words at a key.
    fn word<T: std::str::FromStr<Err: std::fmt::Display>>(
        &mut self,
        node: &Node,
        key: &str,
        name: &str,
    ) -> Option<T> {
        let node = node.get(name).filter(|node| !node.is_null())?;
        let key = format!("{key}.{name}");
        let text = self.text(node, &key)?;
        match text.trim().parse() {
            Ok(word) => Some(word),
            Err(error) => {
                self.problems.error(
                    node.line,
                    &key,
                    format!("{error}"),
                    "docs/strategies.md explains the words",
                );
                None
            }
        }
    }

    fn limits(&mut self, node: &Node, key: &str, function: &mut FunctionArgs) {
        let Some(entries) = self.map(node, key) else { return };
        self.check_keys(node, &format!("{key}."), &LIMITS);
        for entry in entries.iter().filter(|entry| !entry.value.is_null()) {
            let key = format!("{key}.{}", entry.key);
            if NOT_OF_ACTIONS.contains(&entry.key.as_str()) {
                self.problems.warn(
                    entry.line,
                    &key,
                    "nothing is made of this limit: it is not set by actions",
                    "flint namespace limits shows those of a namespace",
                );
                continue;
            }
            let Some(text) = self.text(&entry.value, &key) else { continue };
            let text = text.trim();
            let bare = text.bytes().all(|byte| byte.is_ascii_digit());
            let size = || mebibytes(&text.replace(' ', ""));
            let read = match entry.key.as_str() {
                // A bare number is in milliseconds, as in OpenWhisk.
                "timeout" => duration(&if bare { format!("{text}ms") } else { text.to_owned() })
                    .map(|timeout| function.timeout = Some(timeout)),
                "memory" | "memorySize" => size().map(|memory| function.memory = Some(memory)),
                "logs" | "logSize" => size().map(|logs| function.logs = Some(logs)),
                "cpu" => cpu_millis(text).map(|cpu| function.cpu = Some(cpu)),
                "concurrency" => match text.parse::<NonZeroU32>() {
                    Ok(count) => {
                        function.concurrency = Some(count);
                        Ok(())
                    }
                    Err(_) => Err(format!("'{text}' is not a number from 1")),
                },
                _ => Ok(()),
            };
            if let Err(why) = read {
                self.problems.error(
                    entry.line,
                    &key,
                    why,
                    "times are in ms, sizes in MB, or with their unit",
                );
            }
        }
    }
}

/// The contract that an image implies. Flint runs no containers, but supports images that only call a
/// program, whose code is given.
fn contract_of_image(image: &str) -> Option<Contract> {
    let image = image.trim().trim_start_matches("docker.io/");
    match image.split([':', '@']).next().unwrap_or(image) {
        "openwhisk/dockerskeleton" | "openwhisk/skeleton" => Some(Contract::Skeleton),
        "openwhisk/actionloop-base" | "openwhisk/actionloop-v2" | "openwhisk/actionloop" => {
            Some(Contract::ActionLoop)
        }
        _ => None,
    }
}

/// Annotations including those that `web`, `raw-http` and `final` stand for, as written by
/// `wsk action create --web`.
pub(super) fn web_annotations(
    reader: &mut Reader<'_>,
    node: &Node,
    key: &str,
    mut annotations: Map<String, Value>,
) -> Option<Map<String, Value>> {
    let mut said = None;
    for name in ["web", "web-export"] {
        if let Some(node) = node.get(name).filter(|node| !node.is_null()) {
            said = Some((reader.value(node, &format!("{key}.{name}")), node.line, format!("{key}.{name}")));
        }
    }
    // The annotation may also be written by hand, with the same values.
    if said.is_none()
        && let Some(value) = annotations.get("web-export")
    {
        said = Some((value.clone(), node.line, format!("{key}.annotations.web-export")));
    }
    let flag = |reader: &mut Reader<'_>, name: &str| match node.get(name).filter(|node| !node.is_null()) {
        Some(node) => reader.flag(node, &format!("{key}.{name}")).map(Some),
        None => Some(None),
    };
    let (raw_http, is_final) = (flag(reader, "raw-http")?, flag(reader, "final")?);
    let Some((value, line, key)) = said else {
        for (name, value) in [("raw-http", raw_http), ("final", is_final)] {
            if let Some(value) = value {
                annotations.insert(name.to_owned(), value.into());
            }
        }
        return Some(annotations);
    };
    let word = value.as_str().map_or_else(|| value.to_string(), str::to_ascii_lowercase);
    let (web, raw) = match word.as_str() {
        "true" | "yes" => (true, false),
        "raw" => (true, true),
        "false" | "no" => (false, false),
        _ => {
            reader.problems.error(
                line,
                &key,
                format!("'{word}' says neither that it is open to the web nor that it is not"),
                "write true, false or raw",
            );
            return None;
        }
    };
    let by_hand =
        |annotations: &Map<String, Value>, name: &str| annotations.get(name).and_then(Value::as_bool);
    let raw = raw_http.or(by_hand(&annotations, "raw-http")).unwrap_or(raw);
    let is_final = is_final.or(by_hand(&annotations, "final")).unwrap_or(web);
    for (name, value) in [("web-export", web), ("raw-http", raw), ("final", is_final)] {
        // Absent means false.
        match web {
            true => annotations.insert(name.to_owned(), json!(value)),
            false => annotations.remove(name),
        };
    }
    Some(annotations)
}
