//! Merges a deploy with the existing function: pure rules, no store.

use std::num::NonZeroU32;

use flint_model::{
    Annotations, ByteSize, CodeFormat, Function, FunctionLimits, Jit, Kind, RetryOptions, SecretBinding,
    SnapshotOptions, WasmOptions,
};
use serde::Serialize;

use crate::{ControllerError, LimitsWish};

/// The old limits overridden by the requested ones.
pub(crate) fn limits(old: &FunctionLimits, wish: &LimitsWish) -> Result<FunctionLimits, ControllerError> {
    let at_least_one = |what: &str, count: u32| {
        NonZeroU32::new(count)
            .ok_or_else(|| ControllerError::Invalid(format!("{what} 0 below allowed threshold of 1")))
    };
    let concurrency = wish.concurrency.map(|count| at_least_one("concurrency", count)).transpose()?;
    let instances = match wish.instances {
        None => old.instances,
        Some(count) => count.map(|count| at_least_one("instances", count)).transpose()?,
    };
    Ok(FunctionLimits {
        timeout: wish.timeout.unwrap_or(old.timeout),
        memory: wish.memory.unwrap_or(old.memory),
        logs: wish.logs.unwrap_or(old.logs),
        concurrency: concurrency.unwrap_or(old.concurrency),
        instances,
        cpu_millis: wish.cpu_millis.unwrap_or(old.cpu_millis),
        processes: wish.processes.unwrap_or(old.processes),
        tmp: wish.tmp.unwrap_or(old.tmp),
    })
}

/// The snapshot options: the request's, or the old ones if the runtime is the same.
pub(crate) fn snapshot(
    old: Option<&Function>,
    wish: Option<SnapshotOptions>,
    kind: &Kind,
) -> Result<SnapshotOptions, ControllerError> {
    let old = old.filter(|old| old.kind.family() == kind.family());
    let options = wish.or_else(|| old.map(|old| old.snapshot.clone())).unwrap_or_default();
    options.check().map_err(|error| ControllerError::Invalid(error.to_string()))?;
    match options.jit {
        Some(Jit::Numba) if kind.family() != "python" => Err(ControllerError::Invalid(format!(
            "jit numba compiles Python; this function's kind is {kind}"
        ))),
        _ => Ok(options),
    }
}

/// The WebAssembly grants: the request's, or the old ones if the runtime is the same.
pub(crate) fn wasm(
    old: Option<&Function>,
    wish: Option<WasmOptions>,
    kind: &Kind,
) -> Result<WasmOptions, ControllerError> {
    let old = old.filter(|old| old.kind.family() == kind.family());
    let options = wish.or_else(|| old.map(|old| old.wasm.clone())).unwrap_or_default();
    options.check().map_err(|error| ControllerError::Invalid(error.to_string()))?;
    Ok(options)
}

/// The old annotations without `remove`, overridden by the request's, plus Flint's own: the kind, and for a
/// new function that it does not receive its caller's key unless it asks for it.
pub(crate) fn annotations(
    old: Option<&Annotations>,
    remove: &[String],
    request: Annotations,
    kind: &Kind,
) -> Annotations {
    let mut merged = old.cloned().unwrap_or_default();
    merged.remove_all(remove);
    merged.merge(request);
    if old.is_none() && merged.get("provide-api-key").is_none() {
        merged.set("provide-api-key", false);
    }
    merged.set("exec", kind.as_str());
    merged
}

/// Recognises the format of code from its first bytes and its runtime.
pub(crate) fn recognise(content: &[u8], kind: &Kind) -> CodeFormat {
    let begins = |magic: &[u8]| content.starts_with(magic);
    match kind.family() {
        _ if begins(b"PK\x03\x04") || begins(b"PK\x05\x06") => match kind.family() {
            "java" => CodeFormat::Jar,
            _ => CodeFormat::Zip,
        },
        _ if begins(b"\x1f\x8b") => CodeFormat::TarGz,
        _ if begins(b"\x7fELF") => CodeFormat::Executable,
        "native" | "wasm" => CodeFormat::Executable,
        _ => CodeFormat::Source,
    }
}

/// Maximum nesting depth of JSON given by users: the stored document that contains it must be parseable.
const DEEPEST: usize = 100;

/// Checks the size and depth of JSON given by a user.
pub(crate) fn check_json(
    what: &'static str,
    value: &impl Serialize,
    allowed: ByteSize,
) -> Result<(), ControllerError> {
    let text = serde_json::to_vec(value).map_err(|error| ControllerError::Invalid(error.to_string()))?;
    check_size(what, text.len() as u64, allowed)?;
    match depth(&text) > DEEPEST {
        true => Err(ControllerError::Invalid(format!(
            "{what}: lists and objects are nested deeper than {DEEPEST} levels; make it flatter"
        ))),
        false => Ok(()),
    }
}

/// The nesting depth of a JSON text.
fn depth(json: &[u8]) -> usize {
    let (mut deepest, mut now, mut quoted, mut escaped) = (0, 0usize, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => now += 1,
            b']' | b'}' if !quoted => now = now.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(now);
    }
    deepest
}

/// Whether annotations with a meaning to Flint are valid.
pub(crate) fn check_annotations(annotations: &Annotations) -> Result<(), ControllerError> {
    let retry = annotations.get(RetryOptions::ANNOTATION).map(RetryOptions::of_annotation).transpose();
    retry.map_err(|error| ControllerError::Invalid(error.to_string()))?;
    let secrets = SecretBinding::of(annotations);
    secrets.map(drop).map_err(|error| ControllerError::Invalid(error.to_string()))
}

/// Whether `size` stays within `allowed`.
pub(crate) fn check_size(what: &'static str, size: u64, allowed: ByteSize) -> Result<(), ControllerError> {
    match size > allowed.as_u64() {
        true => Err(ControllerError::TooLarge { what, size, allowed: allowed.as_u64() }),
        false => Ok(()),
    }
}

/// Checks limits that the OpenWhisk API does not have.
pub(crate) fn check_own_limits(
    limits: &FunctionLimits,
    namespace_concurrency: u32,
) -> Result<(), ControllerError> {
    if limits.instances.is_some_and(|instances| instances.get() > namespace_concurrency) {
        return Err(ControllerError::Invalid(format!(
            "Max action instance concurrency must not exceed your namespace concurrency of {namespace_concurrency}."
        )));
    }
    limits.check().map_err(|error| ControllerError::Invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_stored_is_not_too_deep_to_be_read() {
        let nested = |levels| (0..levels).fold(json!("[[\\\"{{"), |inner, _| json!([inner]));
        assert_eq!(depth(nested(7).to_string().as_bytes()), 7);
        assert_eq!(depth(br#"{"a": [{}, []], "b": "["}"#), 3);
        let check = |levels| check_json("annotations", &nested(levels), ByteSize::kib(64));
        assert!(check(DEEPEST).is_ok());
        assert!(check(DEEPEST + 1).unwrap_err().to_string().contains("nested deeper"));
    }

    fn kind(text: &str) -> Kind {
        text.parse().unwrap()
    }

    #[test]
    fn annotations_merge_and_the_kind_is_flints_word() {
        let old = serde_json::from_value(json!([{"key":"a","value":1},{"key":"b","value":2}])).unwrap();
        let new =
            serde_json::from_value(json!([{"key":"c","value":3},{"key":"exec","value":"mine"}])).unwrap();
        let merged = annotations(Some(&old), &["a".to_owned()], new, &kind("nodejs:20"));
        let expected =
            json!([{"key":"b","value":2},{"key":"c","value":3},{"key":"exec","value":"nodejs:20"}]);
        assert_eq!(serde_json::to_value(&merged).unwrap(), expected);
        let created = annotations(None, &[], Annotations::default(), &kind("python:3.11"));
        let expected = json!([{"key":"provide-api-key","value":false},{"key":"exec","value":"python:3.11"}]);
        assert_eq!(serde_json::to_value(&created).unwrap(), expected);
    }

    #[test]
    fn code_is_recognised() {
        assert_eq!(recognise(b"PK\x03\x04..", &kind("nodejs:20")), CodeFormat::Zip);
        assert_eq!(recognise(b"PK\x03\x04..", &kind("java:21")), CodeFormat::Jar);
        assert_eq!(recognise(b"\x1f\x8b..", &kind("nodejs:20")), CodeFormat::TarGz);
        assert_eq!(recognise(b"#!/bin/sh", &kind("native")), CodeFormat::Executable);
        assert_eq!(recognise(b"#!/usr/bin/env node", &kind("nodejs:20")), CodeFormat::Source);
        assert_eq!(recognise(b"", &kind("nodejs:20")), CodeFormat::Source);
    }

    #[test]
    fn limits_that_make_no_sense_are_named() {
        let check = |limits| check_own_limits(&limits, 30).unwrap_err().to_string();
        let limits = FunctionLimits { instances: NonZeroU32::new(31), ..Default::default() };
        assert_eq!(
            check(limits),
            "Max action instance concurrency must not exceed your namespace concurrency of 30."
        );
        let limits = FunctionLimits { tmp: ByteSize::mib(512), ..Default::default() };
        assert_eq!(check(limits), "tmp 512 MB exceeds the memory limit of 256 MB: /tmp is part of it");
        let wish = LimitsWish { concurrency: Some(0), ..Default::default() };
        let error = super::limits(&FunctionLimits::default(), &wish).unwrap_err().to_string();
        assert_eq!(error, "concurrency 0 below allowed threshold of 1");
    }

    proptest! {
        #[test]
        fn limits_that_are_not_named_stay(memory in proptest::option::of(0..4096_u64), timeout in proptest::option::of(1..999_999_u64)) {
            let old = FunctionLimits::default();
            let wish = LimitsWish {
                memory: memory.map(ByteSize::mib),
                timeout: timeout.map(Duration::from_millis),
                ..Default::default()
            };
            let merged = limits(&old, &wish).unwrap();
            prop_assert_eq!(merged.memory, memory.map_or(old.memory, ByteSize::mib));
            prop_assert_eq!(merged.timeout, timeout.map_or(old.timeout, Duration::from_millis));
            let unnamed = FunctionLimits { memory: old.memory, timeout: old.timeout, ..merged };
            prop_assert_eq!(unnamed, old);
        }
    }
}
