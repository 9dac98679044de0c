//! The model of a manifest, read and interpolated, before anything else is considered.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::inputs::Input;
use crate::cli::FunctionArgs;

/// A whole manifest.
#[derive(Debug, Default)]
pub(crate) struct Project {
    /// Its name, by which later deployments find what this one created.
    pub(crate) name: Option<String>,
    pub(crate) packages: Vec<Package>,
    /// A Swagger document that defines a whole API.
    pub(crate) document: Option<(PathBuf, usize)>,
}

#[derive(Debug, Default)]
pub(crate) struct Package {
    /// `None`: its entities are in no package.
    pub(crate) name: Option<String>,
    pub(crate) at: At,
    pub(crate) inputs: Vec<Input>,
    pub(crate) annotations: Map<String, Value>,
    pub(crate) shared: bool,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) actions: Vec<Action>,
    pub(crate) sequences: Vec<Sequence>,
    pub(crate) triggers: Vec<Trigger>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) apis: Vec<Operation>,
}

/// A position in the manifest, for errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) line: usize,
    pub(crate) key: String,
}

/// A binding to a package of this server.
#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) at: At,
    /// `/namespace/package`; the namespace may be `_`.
    pub(crate) provider: String,
    pub(crate) inputs: Vec<Input>,
    pub(crate) annotations: Map<String, Value>,
}

#[derive(Debug)]
pub(crate) struct Action {
    pub(crate) name: String,
    pub(crate) at: At,
    pub(crate) source: Source,
    /// Everything but its inputs and annotations.
    pub(crate) function: FunctionArgs,
    pub(crate) inputs: Vec<Input>,
    pub(crate) annotations: Map<String, Value>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A file, directory or archive.
    Path(PathBuf),
    /// The code itself.
    Inline(String),
}

#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) name: String,
    pub(crate) at: At,
    /// As written.
    pub(crate) components: Vec<String>,
    pub(crate) annotations: Map<String, Value>,
}

#[derive(Debug)]
pub(crate) struct Trigger {
    pub(crate) name: String,
    pub(crate) at: At,
    /// As written.
    pub(crate) feed: Option<String>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) annotations: Map<String, Value>,
}

#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) at: At,
    pub(crate) trigger: String,
    pub(crate) action: String,
    pub(crate) annotations: Map<String, Value>,
}

/// A path and a method of an API.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) api: String,
    pub(crate) at: At,
    /// With a leading slash.
    pub(crate) base_path: String,
    /// With a leading slash.
    pub(crate) path: String,
    /// In lower case.
    pub(crate) method: String,
    /// As written.
    pub(crate) action: String,
    /// http, json, …
    pub(crate) response: String,
}
