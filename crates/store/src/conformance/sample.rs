//! Values for the cases.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use flint_model::{
    Activation, ActivationId, ByteSize, Digest, EntityName, EntityPath, Feed, Function, FunctionPath, KeyId,
    KeyRecord, LogLine, LogStream, Namespace, NamespaceName, Package, RetryPolicy, Rule, SecretHash,
    Sequence, Timestamp, Trigger,
};
use serde_json::json;
use uuid::Uuid;

use crate::{Catalog, LeasedCall, Places, Queue, QueuedCall};

/// More than any list of the cases takes.
pub const PLENTY: ByteSize = ByteSize::mib(64);

/// Long enough for no case to see its end.
pub const LONG: Duration = Duration::from_secs(3600);

/// Text that breaks what takes bytes for characters.
pub const UNICODE: &str = "Grüße, 世界 \u{1F980} \u{0} \u{202E} \"'\\ ; DROP TABLE --";

/// A namespace's name.
pub fn namespace_name(name: &str) -> NamespaceName {
    name.parse().unwrap()
}

/// A package's or function's name.
pub fn entity_name(name: &str) -> EntityName {
    name.parse().unwrap()
}

/// A path.
pub fn path(text: &str) -> FunctionPath {
    text.parse().unwrap()
}

/// A namespace.
pub fn namespace(name: &str) -> Namespace {
    let created = Timestamp::from_millis(1_700_000_000_000);
    Namespace { name: namespace_name(name), limits: Default::default(), blocked: false, created }
}

/// Namespaces that the cases take for granted.
pub const NAMESPACES: [&str; 10] =
    ["R&D @x.y", "a", "b", "busy", "bytes", "calm", "failing", "guest", "other", "single"];

/// Creates them.
pub async fn inhabit(catalog: &dyn Catalog) {
    for name in NAMESPACES {
        catalog.put_namespace(&namespace(name)).await.unwrap();
    }
}

/// A value as deep as a controller lets one be.
pub fn deep() -> serde_json::Value {
    (0..100).fold(json!("the innermost"), |inner, _| json!([inner]))
}

/// A key of a namespace, made at `created`.
pub fn key(namespace: &str, created: u64) -> KeyRecord {
    KeyRecord {
        id: KeyId(Uuid::new_v4()),
        secret: SecretHash([7; 32]),
        namespace: namespace_name(namespace),
        subject: namespace.to_owned(),
        created: Timestamp::from_millis(created),
    }
}

/// A function, written at `updated`.
pub fn function(at: &str, updated: u64) -> Function {
    serde_json::from_value(json!({
        "path": at, "version": "0.0.1", "revision": 0, "kind": "nodejs:20",
        "code": {"digest": Digest::from_bytes([1; 32]), "size": 10, "format": "source"},
        "contract": "handler", "network": "none", "updated": updated,
        "strategy": {"isolation": "process", "start": "fork", "reuse": "never", "concurrency": 1},
        "limits": flint_model::FunctionLimits::default(),
    }))
    .unwrap()
}

/// A function as upkeep sees it.
pub fn bare_function(function: Function) -> Function {
    Function {
        parameters: Default::default(),
        annotations: Default::default(),
        snapshot: Default::default(),
        wasm: Default::default(),
        ..function
    }
}

/// A package, written at `updated`.
pub fn package(at: &str, updated: u64) -> Package {
    let EntityPath { namespace, name } = at.parse().unwrap();
    serde_json::from_value(json!({
        "namespace": namespace, "name": name, "version": "0.0.1", "revision": 0, "publish": true, "updated": updated,
        "annotations": [{"key": "description", "value": UNICODE}], "parameters": [{"key": UNICODE, "value": [null, 1.5]}],
    }))
    .unwrap()
}

/// A trigger, written at `updated`.
pub fn trigger(at: &str, updated: u64) -> Trigger {
    let EntityPath { namespace, name } = at.parse().unwrap();
    serde_json::from_value(json!({
        "namespace": namespace, "name": name, "version": "0.0.1", "revision": 0, "updated": updated,
        "annotations": [{"key": "feed", "value": "/guest/p/feed"}], "parameters": [{"key": "k", "value": UNICODE}],
    }))
    .unwrap()
}

/// The feed of a trigger, due at `next`.
pub fn feed(at: &str, next: u64) -> Feed {
    let EntityPath { namespace, name } = at.parse().unwrap();
    serde_json::from_value(json!({
        "namespace": namespace, "trigger": name, "subject": UNICODE, "revision": 0, "state": "active", "since": 1,
        "source": {"feed": "interval", "minutes": 1, "start": {"at": next, "text": UNICODE}},
        "payload": {UNICODE: [null, 1.5]}, "next": next,
    }))
    .unwrap()
}

/// A rule between two paths, written at `updated`.
pub fn rule(at: &str, trigger: &str, action: &str, updated: u64) -> Rule {
    let EntityPath { namespace, name } = at.parse().unwrap();
    serde_json::from_value(json!({
        "namespace": namespace, "name": name, "version": "0.0.1", "revision": 0, "updated": updated,
        "trigger": trigger, "action": action, "status": "inactive",
    }))
    .unwrap()
}

/// A sequence, written at `updated`.
pub fn sequence(at: &str, components: &[&str], updated: u64) -> Sequence {
    serde_json::from_value(json!({
        "path": at, "version": "0.0.1", "revision": 0, "components": components, "updated": updated,
        "limits": flint_model::FunctionLimits::default(),
    }))
    .unwrap()
}

/// A call, accepted at `accepted`, that may have `max_attempts`.
pub fn call(namespace: &str, accepted: u64, max_attempts: u32) -> QueuedCall {
    QueuedCall {
        activation: ActivationId::generate(),
        namespace: namespace_name(namespace),
        subject: namespace.to_owned(),
        path: path(&format!("{namespace}/work")),
        arguments: Bytes::from_static(b"{}"),
        transaction: "transaction".to_owned(),
        accepted: Timestamp::from_millis(accepted),
        policy: RetryPolicy { max_attempts, ..RetryPolicy::default() },
        cause: None,
        promised: false,
    }
}

/// As many places as anybody may ask for.
pub fn everybody() -> Places {
    Arc::new(|_| usize::MAX)
}

/// Leases calls that are due, those that failed before last.
pub async fn lease(queue: &dyn Queue, owner: &str, limit: usize, lease: Duration) -> Vec<LeasedCall> {
    let mut leased = queue.lease(owner, limit, lease, everybody()).await.unwrap();
    assert!(leased.iter().all(|leased| leased.attempt == 1), "{leased:?}");
    let again = queue.lease_again(owner, limit - leased.len(), lease, everybody()).await.unwrap();
    assert!(again.iter().all(|leased| leased.attempt > 1), "{again:?}");
    leased.extend(again);
    leased
}

/// The record of a call of `at`, started at `start`, with `lines` log lines.
pub fn activation(namespace: &str, at: &str, start: u64, lines: usize) -> Activation {
    let path = path(at);
    let mut record: Activation = serde_json::from_value(json!({
        "id": ActivationId::generate(), "namespace": namespace, "name": path.name, "path": path,
        "version": "0.0.1", "kind": "nodejs:20", "subject": namespace, "start": start, "end": start + 5,
        "duration_us": 5000, "wait_us": 100, "timeline": {"queued": 10, "placed": 20, "ran": 5020},
        "response": {"status": "success", "result": {"answer": 42}, "size": 13},
    }))
    .unwrap();
    record.logs = (0..lines)
        .map(|line| LogLine {
            time_us: start * 1000 + line as u64,
            stream: if line % 2 == 0 { LogStream::Stdout } else { LogStream::Stderr },
            text: format!("line {line}"),
        })
        .collect();
    record
}

/// A record as text, to compare by.
pub fn text_of(record: &Activation) -> String {
    serde_json::to_string(record).unwrap()
}
