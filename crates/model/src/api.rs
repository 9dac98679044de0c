//! APIs of the gateway: paths and methods under one base path, each answered by a web action.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{FunctionPath, NamespaceName, Timestamp};

/// An API. A namespace has one for each base path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Api {
    /// Whose it is.
    pub namespace: NamespaceName,
    /// What all its paths begin with: `/`, or `/a/b` without a slash at its end.
    pub base_path: String,
    /// What people call it.
    pub title: String,
    /// Counts every write of every API and entity over all time.
    pub revision: u64,
    /// What else its Swagger document says, `paths` left out.
    #[serde(default)]
    pub document: Map<String, Value>,
    /// What it answers.
    pub operations: Vec<Operation>,
    /// When this revision was written.
    pub updated: Timestamp,
}

/// One path and method of an API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// The path below the base path, beginning with `/`; a segment `{name}` stands for any.
    pub path: String,
    /// The method in lower case.
    pub method: String,
    /// The web action that answers.
    pub action: FunctionPath,
    /// The form of its answer: `.http`, `.json`, …
    pub extension: String,
    /// What the action wants to see in `X-Require-Whisk-Auth`. Never shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// What else its Swagger operation says.
    #[serde(default)]
    pub document: Map<String, Value>,
}
