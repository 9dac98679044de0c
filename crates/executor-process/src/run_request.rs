//! The request that OpenWhisk's runtimes receive: the body of `/run`, which is also ActionLoop's line.

use bytes::Bytes;
use flint_executor::{Body, BodyError, Call, Fault};
use flint_model::Function;
use serde::Serialize;
use serde_json::value::RawValue;

/// Longest arguments of one call; API fronts allow less.
const ARGUMENTS_MAX: u64 = 64 << 20;

/// The environment variables with the function's identity.
pub(crate) fn identity(function: &Function) -> [(String, String); 3] {
    [
        ("__OW_NAMESPACE", function.path.namespace.to_string()),
        ("__OW_ACTION_NAME", format!("/{}", function.path)),
        ("__OW_ACTION_VERSION", function.version.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
}

/// Takes the whole body out of a call.
pub(crate) async fn arguments(call: &mut Call) -> Result<Bytes, BodyError> {
    match std::mem::replace(&mut call.body, Body::Full(Bytes::new())) {
        Body::Full(bytes) => Ok(bytes),
        stream => {
            let collected = tokio::time::timeout_at(call.deadline.into(), stream.collect(ARGUMENTS_MAX));
            collected.await.unwrap_or(Err(BodyError::Late))
        }
    }
}

/// `{"value": …, "namespace": …, …}`. `arguments` must be a JSON value; if it is empty it means `{}`.
pub(crate) fn of(function: &Function, call: &Call, arguments: &[u8]) -> Result<Vec<u8>, Fault> {
    #[derive(Serialize)]
    struct Run<'a> {
        value: &'a RawValue,
        namespace: &'a str,
        action_name: String,
        action_version: String,
        activation_id: String,
        transaction_id: &'a str,
        deadline: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        api_key: Option<&'a str>,
    }
    let arguments: &[u8] = if arguments.is_empty() { b"{}" } else { arguments };
    let value: &RawValue =
        serde_json::from_slice(arguments).map_err(|error| Fault::NotJson(error.to_string()))?;
    let run = Run {
        value,
        namespace: function.path.namespace.as_str(),
        action_name: format!("/{}", function.path),
        action_version: function.version.to_string(),
        activation_id: call.activation.to_string(),
        transaction_id: &call.transaction,
        deadline: call.deadline_at.as_millis().to_string(),
        api_key: call.api_key.as_deref(),
    };
    serde_json::to_vec(&run).map_err(|error| Fault::Platform { cause: error.to_string() })
}
