//! A function with everything that its calls need, worked out once.

use std::sync::Arc;

use flint_model::{Annotations, Function};
use flint_telemetry::{FunctionMetrics, Metrics};
use serde_json::{Map, Value};

use crate::arguments::Defaults;

/// A function, ready to be called.
pub(crate) struct Callable {
    pub(crate) function: Arc<Function>,
    pub(crate) defaults: Defaults,
    /// What the records of its calls carry.
    pub(crate) annotations: Annotations,
    /// The function is handed its caller's key.
    pub(crate) wants_key: bool,
    pub(crate) metrics: FunctionMetrics,
}

impl Callable {
    pub(crate) fn new(function: Function, metrics: &Metrics) -> Self {
        let mut annotations = Annotations::default();
        annotations.set("limits", limits_of(&function));
        // Absent = yes, as in OpenWhisk, where only functions from before the annotation have none.
        let wants_key = function.annotations.get("provide-api-key").is_none()
            || function.annotations.is_truthy("provide-api-key");
        let path = &function.path;
        Self {
            defaults: Defaults::new(&function.parameters, &function.annotations),
            annotations,
            wants_key,
            metrics: metrics.function(path.namespace.as_str(), &path.local(), function.kind.as_str()),
            function: Arc::new(function),
        }
    }
}

/// The limits as records show them: ms and whole MB.
fn limits_of(function: &Function) -> Value {
    let limits = &function.limits;
    let mut shown = Map::new();
    shown.insert("timeout".to_owned(), (limits.timeout.as_millis() as u64).into());
    shown.insert("memory".to_owned(), limits.memory.as_mib().into());
    shown.insert("logs".to_owned(), limits.logs.as_mib().into());
    shown.insert("concurrency".to_owned(), limits.concurrency.get().into());
    if let Some(instances) = limits.instances {
        shown.insert("instances".to_owned(), instances.get().into());
    }
    Value::Object(shown)
}
