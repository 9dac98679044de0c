//! Actions.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use flint_model::{Annotations, CodeFormat, Function, FunctionPath, Parameters, Version};
use serde::Serialize;

/// An action with everything.
#[derive(Serialize)]
pub(crate) struct ActionDetail<'a> {
    #[serde(flatten)]
    common: Common<'a>,
    parameters: &'a Parameters,
    exec: ExecDetail<'a>,
}

/// An action as lists show it.
#[derive(Serialize)]
pub(crate) struct ActionSummary<'a> {
    #[serde(flatten)]
    common: Common<'a>,
    exec: ExecSummary,
}

#[derive(Serialize)]
struct Common<'a> {
    namespace: String,
    name: &'a str,
    version: Version,
    publish: bool,
    annotations: Annotations,
    limits: Limits,
    updated: u64,
}

#[derive(Serialize)]
struct ExecDetail<'a> {
    kind: &'a str,
    binary: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    main: Option<&'a str>,
}

#[derive(Serialize)]
struct ExecSummary {
    binary: bool,
}

#[derive(Serialize)]
struct Limits {
    timeout: u64,
    memory: u64,
    logs: u64,
    concurrency: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    instances: Option<u32>,
}

impl<'a> ActionDetail<'a> {
    /// With `code` as it is to be shown; without it, the field is left out.
    pub(crate) fn new(function: &'a Function, code: Option<String>) -> Self {
        Self {
            common: Common::of(function),
            parameters: &function.parameters,
            exec: ExecDetail {
                kind: function.kind.as_str(),
                binary: is_binary(function),
                code,
                main: function.main.as_deref(),
            },
        }
    }
}

impl<'a> ActionSummary<'a> {
    pub(crate) fn new(function: &'a Function) -> Self {
        Self { common: Common::of(function), exec: ExecSummary { binary: is_binary(function) } }
    }
}

impl<'a> Common<'a> {
    fn of(function: &'a Function) -> Self {
        let mut annotations = function.annotations.clone();
        // A function that came through another front may not say it.
        annotations.set("exec", function.kind.as_str());
        let limits = &function.limits;
        Self {
            namespace: namespace_of(&function.path),
            name: function.path.name.as_str(),
            version: function.version,
            publish: function.publish,
            annotations,
            limits: Limits {
                timeout: limits.timeout.as_millis() as u64,
                memory: limits.memory.as_mib(),
                logs: limits.logs.as_mib(),
                concurrency: limits.concurrency.get(),
                instances: limits.instances.map(Into::into),
            },
            updated: function.updated.as_millis(),
        }
    }
}

/// `namespace`, or `namespace/package`.
fn namespace_of(path: &FunctionPath) -> String {
    match &path.package {
        Some(package) => format!("{}/{package}", path.namespace),
        None => path.namespace.to_string(),
    }
}

/// Whether the code is shown as base64.
pub(crate) fn is_binary(function: &Function) -> bool {
    function.code.format != CodeFormat::Source
}

/// The code as it is shown: text, or base64.
pub(crate) fn shown_code(function: &Function, content: &Bytes) -> String {
    match is_binary(function) {
        true => STANDARD.encode(content),
        false => String::from_utf8_lossy(content).into_owned(),
    }
}
