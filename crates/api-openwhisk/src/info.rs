//! Information about the server: version, runtimes, limits, readiness.

use std::{collections::BTreeMap, sync::Arc};

use flint_controller::{Controller, ControllerError};
use flint_executor::RuntimeKind;
use flint_model::{ByteSize, show_duration};
use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{front::FrontConfig, refusal::Refusal, reply::Reply, request::Request};

/// `GET /`
pub(crate) fn root(controller: &Controller) -> Result<Reply, Refusal> {
    let limits = &controller.config().limits;
    let (bounds, defaults) = (&limits.bounds, &controller.config().defaults);
    let (default_millis, default_memory, default_logs) =
        (defaults.timeout.as_millis() as u64, defaults.memory.as_u64(), defaults.logs.as_u64());
    let millis = |duration: std::time::Duration| duration.as_millis() as u64;
    let body = json!({
        "description": "OpenWhisk",
        "support": {
            "github": "https://github.com/apache/openwhisk/issues",
            "slack": "http://slack.openwhisk.org",
        },
        "api_paths": ["/api/v1"],
        "limits": {
            "actions_per_minute": limits.invocations_per_minute,
            "triggers_per_minute": limits.fires_per_minute,
            "concurrent_actions": limits.concurrent_invocations,
            "sequence_length": bounds.max_sequence,
            "default_min_action_duration": default_millis,
            "default_max_action_duration": default_millis,
            "default_min_action_memory": default_memory,
            "default_max_action_memory": default_memory,
            "default_min_action_logs": default_logs,
            "default_max_action_logs": default_logs,
            "min_action_duration": millis(bounds.min_timeout),
            "max_action_duration": millis(bounds.max_timeout),
            "min_action_memory": bounds.min_memory.as_u64(),
            "max_action_memory": bounds.max_memory.as_u64(),
            "min_action_logs": bounds.min_logs.as_u64(),
            "max_action_logs": bounds.max_logs.as_u64(),
        },
        "runtimes": runtimes(&controller.kinds()),
    });
    Reply::json(StatusCode::OK, &body)
}

/// The runtimes by family; an unavailable one says what it lacks.
fn runtimes(kinds: &[RuntimeKind]) -> BTreeMap<&str, Vec<Value>> {
    let mut families = BTreeMap::<_, Vec<Value>>::new();
    for runtime in kinds {
        let family = families.entry(runtime.kind.family()).or_default();
        let mut shown = json!({
            "kind": runtime.kind,
            "image": format!("flint/{}", runtime.kind),
            "deprecated": false,
            "default": runtime.default,
            "attached": true,
            "requireMain": runtime.requires_main,
        });
        if let Err(missing) = &runtime.state {
            shown["attached"] = false.into();
            shown["unavailable"] = missing.as_str().into();
        }
        if !family.iter().any(|other| other["kind"] == shown["kind"]) {
            family.push(shown);
        }
    }
    families
}

/// `GET /api/v1`
pub(crate) fn api(config: &FrontConfig) -> Result<Reply, Refusal> {
    let body = json!({
        "description": "OpenWhisk API",
        "api_version": "1.0.0",
        "api_version_path": "v1",
        "build": config.build,
        "buildno": config.build_number,
        "swagger_paths": {"ui": "/docs", "api-docs": "/api-docs"},
    });
    Reply::json(StatusCode::OK, &body)
}

/// `GET /invokers`: this node is the only one.
pub(crate) fn invokers() -> Result<Reply, Refusal> {
    Reply::json(StatusCode::OK, &json!({"invoker0/0": "up"}))
}

/// `GET /invokers/ready`
pub(crate) async fn ready(controller: &Arc<Controller>) -> Result<Reply, Refusal> {
    match controller.ready().await {
        Ok(()) => Reply::json(StatusCode::OK, &json!({"healthy": "1/1"})),
        Err(why) => {
            Reply::json(StatusCode::INTERNAL_SERVER_ERROR, &json!({"unhealthy": "1/1", "cause": why}))
        }
    }
}

/// `GET /api/v1/namespaces`
pub(crate) fn namespaces(request: &Request<'_>) -> Result<Reply, Refusal> {
    Reply::json(StatusCode::OK, &[&request.caller.namespace.name])
}

/// `GET …/limits`: the namespace's effective limits. Memory and logs in MB, times in ms.
pub(crate) fn limits(request: &Request<'_>, namespace: &str) -> Result<Reply, Refusal> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Limits<'a> {
        invocations_per_minute: u32,
        concurrent_invocations: u32,
        fires_per_minute: u32,
        min_action_memory: u64,
        max_action_memory: u64,
        min_action_logs: u64,
        max_action_logs: u64,
        min_action_timeout: u64,
        max_action_timeout: u64,
        min_action_concurrency: u32,
        max_action_concurrency: u32,
        max_parameter_size: ByteSizeText,
        max_action_instances: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        allowed_kinds: Option<&'a [String]>,
        #[serde(skip_serializing_if = "Option::is_none")]
        store_activations: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_payload_size: Option<ByteSizeText>,
        #[serde(skip_serializing_if = "Option::is_none")]
        truncation_size: Option<ByteSizeText>,
        #[serde(skip_serializing_if = "Option::is_none")]
        warmed_container_keeping_count: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        warmed_container_keeping_timeout: Option<String>,
    }

    let namespace = request.namespace(namespace)?;
    if namespace != request.caller.namespace.name {
        return Err(ControllerError::Forbidden(namespace.to_string()).into());
    }
    let (limits, own) = (request.caller.limits(), &request.caller.namespace.limits);
    let bounds = &limits.bounds;
    Reply::json(
        StatusCode::OK,
        &Limits {
            invocations_per_minute: limits.invocations_per_minute,
            concurrent_invocations: limits.concurrent_invocations,
            fires_per_minute: limits.fires_per_minute,
            min_action_memory: bounds.min_memory.as_mib(),
            max_action_memory: bounds.max_memory.as_mib(),
            min_action_logs: bounds.min_logs.as_mib(),
            max_action_logs: bounds.max_logs.as_mib(),
            min_action_timeout: bounds.min_timeout.as_millis() as u64,
            max_action_timeout: bounds.max_timeout.as_millis() as u64,
            min_action_concurrency: bounds.min_concurrency,
            max_action_concurrency: bounds.max_concurrency,
            max_parameter_size: ByteSizeText(bounds.max_parameters),
            max_action_instances: limits.max_action_instances,
            allowed_kinds: limits.allowed_kinds.as_deref(),
            store_activations: own.store_activations,
            max_payload_size: own.max_payload_size.map(ByteSizeText),
            truncation_size: own.truncation_size.map(ByteSizeText),
            warmed_container_keeping_count: own.warmed_container_keeping_count,
            warmed_container_keeping_timeout: own.warmed_container_keeping_timeout.map(show_duration),
        },
    )
}

/// A size as text: `1 MB`.
struct ByteSizeText(ByteSize);

impl Serialize for ByteSizeText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}
