//! The JSON of actions.

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use flint_model::{
    Annotations, CodeFormat, Contract, Entity, Function, FunctionLimits, FunctionPath, Parameter, Parameters,
    Sequence, Version,
};
use serde::Serialize;

/// The kind of a sequence.
const SEQUENCE: &str = "sequence";

/// A complete action.
#[derive(Serialize)]
pub(crate) struct ActionDetail<'a> {
    #[serde(flatten)]
    common: Common<'a>,
    parameters: Cow<'a, Parameters>,
    exec: ExecDetail<'a>,
}

/// An action in lists.
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
#[serde(untagged)]
enum ExecDetail<'a> {
    Code(CodeDetail<'a>),
    Sequence { kind: &'static str, components: Vec<String> },
}

#[derive(Serialize)]
struct CodeDetail<'a> {
    kind: &'a str,
    binary: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<&'a str>,
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
    /// With `code` in its JSON form, or without the field.
    pub(crate) fn new(function: &'a Function, code: Option<String>) -> Self {
        Self {
            common: Common::of_function(function),
            parameters: Cow::Borrowed(&function.parameters),
            exec: ExecDetail::Code(CodeDetail {
                kind: function.kind.as_str(),
                binary: is_binary(function),
                image: image_of(function),
                code,
                main: function.main.as_deref(),
            }),
        }
    }

    /// A sequence; its components are also its only parameter beside those of its place.
    pub(crate) fn of_sequence(sequence: &'a Sequence, of_place: &Parameters) -> Self {
        let components: Vec<_> = sequence.components.iter().map(|path| format!("/{path}")).collect();
        let list = Parameter { key: "_actions".to_owned(), value: components.clone().into(), init: false };
        Self {
            common: Common::of_sequence(sequence),
            parameters: Cow::Owned(Parameters(vec![list]).over(of_place)),
            exec: ExecDetail::Sequence { kind: SEQUENCE, components },
        }
    }
}

impl<'a> ActionSummary<'a> {
    /// A function or a sequence; nothing else is an action.
    pub(crate) fn of(action: &'a Entity) -> Option<Self> {
        match action {
            Entity::Function(function) => Some(Self {
                common: Common::of_function(function),
                exec: ExecSummary { binary: is_binary(function) },
            }),
            Entity::Sequence(sequence) => {
                Some(Self { common: Common::of_sequence(sequence), exec: ExecSummary { binary: false } })
            }
            _ => None,
        }
    }
}

impl<'a> Common<'a> {
    fn of_function(function: &'a Function) -> Self {
        let mut annotations = function.annotations.clone();
        // A function deployed through another front may lack it.
        annotations.set("exec", function.kind.as_str());
        Self {
            namespace: namespace_of(&function.path),
            name: function.path.name.as_str(),
            version: function.version,
            publish: function.publish,
            annotations,
            limits: Limits::of(&function.limits),
            updated: function.updated.as_millis(),
        }
    }

    fn of_sequence(sequence: &'a Sequence) -> Self {
        let mut annotations = sequence.annotations.clone();
        annotations.set("exec", SEQUENCE);
        Self {
            namespace: namespace_of(&sequence.path),
            name: sequence.path.name.as_str(),
            version: sequence.version,
            publish: sequence.publish,
            annotations,
            limits: Limits::of(&sequence.limits),
            updated: sequence.updated.as_millis(),
        }
    }
}

impl Limits {
    fn of(limits: &FunctionLimits) -> Self {
        Self {
            timeout: limits.timeout.as_millis() as u64,
            memory: limits.memory.as_mib(),
            logs: limits.logs.as_mib(),
            concurrency: limits.concurrency.get(),
            instances: limits.instances.map(Into::into),
        }
    }
}

/// The kind of actions that name a container image.
pub(crate) const BLACKBOX: &str = "blackbox";

/// Images that only call a program, and by which contract.
const IMAGES: [(&str, Contract); 4] = [
    ("openwhisk/dockerskeleton", Contract::Skeleton),
    ("openwhisk/actionloop-base", Contract::ActionLoop),
    ("openwhisk/actionloop-v2", Contract::ActionLoop),
    ("openwhisk/actionloop", Contract::ActionLoop),
];

/// Longer than any reference to an image: name, tag and digest.
const LONGEST_IMAGE: usize = 512;

/// How an image calls its program; tag and registry do not matter.
pub(crate) fn contract_of_image(image: &str) -> Option<Contract> {
    let image = image.trim();
    if image.len() > LONGEST_IMAGE {
        return None;
    }
    let image = image.strip_prefix("docker.io/").unwrap_or(image);
    let name = image.split([':', '@']).next().unwrap_or(image);
    IMAGES.iter().find(|(known, _)| *known == name).map(|(_, contract)| *contract)
}

/// The image of a blackbox action: as it was named, or one that calls its program in the same way.
fn image_of(function: &Function) -> Option<&str> {
    if function.kind.family() != BLACKBOX {
        return None;
    }
    let alike = || IMAGES.iter().find(|(_, contract)| *contract == function.contract).map(|(name, _)| *name);
    function.image.as_deref().or_else(alike)
}

/// `namespace`, or `namespace/package`.
fn namespace_of(path: &FunctionPath) -> String {
    match &path.package {
        Some(package) => format!("{}/{package}", path.namespace),
        None => path.namespace.to_string(),
    }
}

/// Whether the code is represented as base64.
pub(crate) fn is_binary(function: &Function) -> bool {
    function.code.format != CodeFormat::Source
}

/// The code's JSON representation: text, or base64.
pub(crate) fn shown_code(function: &Function, content: &Bytes) -> String {
    match is_binary(function) {
        true => STANDARD.encode(content),
        false => String::from_utf8_lossy(content).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_that_only_call_a_program_are_known_by_name() {
        for (image, contract) in [
            ("openwhisk/dockerskeleton", Some(Contract::Skeleton)),
            ("docker.io/openwhisk/dockerskeleton:1.14.0", Some(Contract::Skeleton)),
            ("openwhisk/actionloop-base:nightly", Some(Contract::ActionLoop)),
            ("me/openwhisk/dockerskeleton", None),
            ("openwhisk/dockerskeletons", None),
            ("", None),
            (format!("openwhisk/dockerskeleton:{}", "x".repeat(LONGEST_IMAGE)).as_str(), None),
        ] {
            assert_eq!(contract_of_image(image), contract, "{image}");
        }
    }
}
