//! Actions with code: packed as by `flint deploy`, and compared by digest.

use std::fs;

use base64::{Engine, engine::general_purpose::STANDARD};
use flint_api_native::resource::{DeployRequest, FunctionResource};
use flint_model::Reuse;
use serde_json::{Map, Value, json};

use super::{
    entity::{Entity, What, Write},
    facts::{DIGEST, Facts, Field, add_annotations, add_parameters, digest},
    kinds::Kinds,
    model::{Action, Source},
};
use crate::{
    failure::Failure,
    package::{Package, package},
};

/// The server's default limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DefaultLimits {
    pub(crate) timeout_ms: u64,
    pub(crate) memory_mb: u64,
    pub(crate) logs_mb: u64,
}

/// Runtimes whose instances are reused by default, as code written for OpenWhisk expects.
const KEPT: [&str; 6] = ["nodejs", "python", "java", "go", "php", "ruby"];

/// Packs an action's code with its directory's flint.toml. Blocks.
pub(crate) fn packed(action: &Action, told: &dyn Fn(&str)) -> Result<Package, Failure> {
    let mut args = action.function.clone();
    for input in &action.inputs {
        let list = if input.init { &mut args.init_params } else { &mut args.params };
        list.push((input.name.clone(), input.value.clone().unwrap_or_default()));
    }
    args.annotations = action.annotations.clone().into_iter().collect();
    match &action.source {
        Source::Path(path) => {
            // Go sources are compiled by the server, as in OpenWhisk; flint's own build would make
            // WebAssembly.
            if args.kind.is_none() && path.extension().is_some_and(|extension| extension == "go") {
                args.kind = Some("go:default".to_owned());
            }
            package(path, args, told)
        }
        Source::Inline(code) => {
            let family = args.kind.as_deref().and_then(|kind| kind.split(':').next()).unwrap_or_default();
            let extension = match family {
                "nodejs" => "js",
                "python" => "py",
                "java" => "java",
                "php" => "php",
                "ruby" => "rb",
                "go" => "go",
                _ => {
                    return Err(Failure::usage("code that stands in the manifest needs its runtime").hint(
                        "write runtime: nodejs:default, python:default, …, or put the code into a file",
                    ));
                }
            };
            let failed = |error| Failure::local(format!("cannot write a temporary file: {error}"));
            let scratch = tempfile::Builder::new().prefix("flint-code-").tempdir().map_err(failed)?;
            let file = scratch.path().join(format!("code.{extension}"));
            fs::write(&file, code).map_err(failed)?;
            package(&file, args, told)
        }
    }
}

/// The entity of a packed action.
pub(crate) fn entity(
    action: &Action,
    mut package: Package,
    kinds: &Kinds,
    defaults: DefaultLimits,
) -> Result<Entity, Failure> {
    let request = &mut package.request;
    let kind = kinds.resolve(request.kind.as_deref().unwrap_or_default(), request.main.as_deref())?;
    let family = kind.split(':').next().unwrap_or_default();
    request.kind = Some(kind.to_owned());
    let is_plain = request.contract.is_none() && request.start.is_none() && request.isolation.is_none();
    if is_plain && KEPT.contains(&family) {
        request.reuse.get_or_insert(Reuse::Warm);
    }
    let annotations = std::mem::take(&mut request.annotations);
    let digest = digest_of(request);
    let mut entity = Entity {
        what: What::Function,
        name: package.name.clone(),
        at: action.at.clone(),
        facts: wanted(request, defaults),
        annotations,
        digest,
        write: Write::Function(Box::new(package)),
    };
    let mut shown = entity.annotations.clone();
    if let Some(digest) = &entity.digest {
        entity.facts.insert(Field::Digest("further settings"), digest.as_str().into());
        shown.insert(DIGEST.to_owned(), digest.as_str().into());
    }
    add_annotations(&mut entity.facts, &shown);
    Ok(entity)
}

/// The digest of the parts of a request that no response returns as they were sent; `None` if there are none.
fn digest_of(request: &DeployRequest) -> Option<String> {
    let mut limits = request.limits.clone();
    (limits.timeout_ms, limits.memory_mb, limits.logs_mb, limits.concurrency) = (None, None, None, None);
    let said = DeployRequest {
        snapshot: request.snapshot.clone(),
        wasm: request.wasm.clone(),
        retry: request.retry.clone(),
        limits,
        ..DeployRequest::default()
    };
    (said != DeployRequest::default()).then(|| digest(&json!(said)))
}

/// The function that a request creates, without annotations.
fn wanted(request: &DeployRequest, defaults: DefaultLimits) -> Facts {
    let mut facts = Facts::new();
    let mut own = |field, value: Option<Value>| {
        if let Some(value) = value {
            facts.insert(Field::Own(field), value);
        }
    };
    own("kind", request.kind.clone().map(Value::from));
    own("main", request.main.clone().filter(|main| !main.trim().is_empty()).map(Value::from));
    own(
        "code",
        request.code.as_ref().map(|code| {
            let bytes = match (&code.text, &code.base64) {
                (Some(text), _) => text.clone().into_bytes(),
                // Packing has just produced valid base64.
                (None, base64) => STANDARD.decode(base64.as_deref().unwrap_or_default()).unwrap_or_default(),
            };
            json!({ "digest": blake3::hash(&bytes).to_hex().as_str(), "size": bytes.len() })
        }),
    );
    let asked = [
        ("contract", request.contract.map(|one| one.to_string())),
        ("isolation", request.isolation.map(|one| one.to_string())),
        ("start", request.start.map(|one| one.to_string())),
        ("reuse", request.reuse.map(|one| one.to_string())),
        ("network", Some(request.network.unwrap_or_default().to_string())),
    ];
    asked.into_iter().for_each(|(field, value)| own(field, value.map(Value::from)));
    let limits = &request.limits;
    add_limits(
        &mut facts,
        [
            limits.timeout_ms.unwrap_or(defaults.timeout_ms),
            limits.memory_mb.unwrap_or(defaults.memory_mb),
            limits.logs_mb.unwrap_or(defaults.logs_mb),
            limits.concurrency.map_or(1, |count| u64::from(count.get())),
        ],
    );
    add_parameters(&mut facts, request.parameters.iter().map(|one| (one.key.as_str(), &one.value, one.init)));
    facts
}

/// The properties of an existing function.
pub(crate) fn there(function: &FunctionResource) -> (Facts, Map<String, Value>) {
    let mut facts = Facts::new();
    let mut own = |field, value: Option<Value>| {
        if let Some(value) = value {
            facts.insert(Field::Own(field), value);
        }
    };
    own("kind", Some(function.kind.as_str().into()));
    own("main", function.main.clone().map(Value::from));
    own("code", Some(json!({ "digest": function.code.digest, "size": function.code.size })));
    let asked = [
        ("contract", function.asked.contract.map(|one| one.to_string())),
        ("isolation", function.asked.isolation.map(|one| one.to_string())),
        ("start", function.asked.start.map(|one| one.to_string())),
        ("reuse", function.asked.reuse.map(|one| one.to_string())),
        ("network", Some(function.network.to_string())),
    ];
    asked.into_iter().for_each(|(field, value)| own(field, value.map(Value::from)));
    let limits = &function.limits;
    let known = [limits.timeout_ms, limits.memory_mb, limits.logs_mb, u64::from(limits.concurrency)];
    add_limits(&mut facts, known);
    add_parameters(
        &mut facts,
        function.parameters.iter().flatten().map(|one| (one.key.as_str(), &one.value, one.init)),
    );
    add_annotations(&mut facts, &function.annotations);
    if let Some(digest) = function.annotations.get(DIGEST) {
        facts.insert(Field::Digest("further settings"), digest.clone());
    }
    (facts, function.annotations.clone())
}

fn add_limits(facts: &mut Facts, limits: [u64; 4]) {
    let names = ["timeout", "memory", "logs", "concurrency"];
    facts.extend(names.into_iter().zip(limits).map(|(name, value)| (Field::Limit(name), value.into())));
}
