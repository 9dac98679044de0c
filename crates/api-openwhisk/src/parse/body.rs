//! Parses the body of `PUT …/actions/NAME`.

use std::time::Duration;

use flint_controller::LimitsWish;
use flint_model::{Annotations, ByteSize, FunctionPath, Parameters, Version};
use serde::Deserialize;

use super::{object, version};

/// The body of `PUT …/actions/NAME`. Unknown fields are ignored; `null` is absent.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PutBody {
    /// The code.
    pub exec: Option<Exec>,
    /// Default arguments; replace all old ones.
    pub parameters: Option<Parameters>,
    /// Annotations to set.
    pub annotations: Option<Annotations>,
    /// Annotations to remove first.
    pub del_annotations: Option<Vec<String>>,
    /// Limits to set.
    limits: Option<Limits>,
    /// The requested version.
    #[serde(deserialize_with = "version")]
    pub version: Option<Version>,
    /// Whether it is published; only meaningful for packages.
    pub publish: Option<bool>,
}

/// `exec`.
#[derive(Debug, Deserialize)]
pub struct Exec {
    /// `nodejs:20`, `nodejs:default`, `sequence`, `blackbox`.
    pub kind: String,
    /// Source text, or base64 of an archive.
    #[serde(default, alias = "jar")]
    pub code: Option<String>,
    /// Blackbox actions: the container image.
    #[serde(default)]
    pub image: Option<String>,
    /// The components of a sequence.
    #[serde(default)]
    pub components: Option<Vec<FunctionPath>>,
    /// The entry point.
    #[serde(default)]
    pub main: Option<String>,
}

/// `limits`, in ms and MB.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Limits {
    timeout: Option<u64>,
    memory: Option<u64>,
    logs: Option<u64>,
    concurrency: Option<u32>,
    instances: Option<u32>,
}

impl PutBody {
    /// The requested limits.
    pub fn limits(&self) -> LimitsWish {
        // Far beyond any limit, and must not overflow when converted to bytes.
        let mib = |count: u64| ByteSize::mib(count.min(1 << 40));
        let Some(limits) = &self.limits else { return LimitsWish::default() };
        LimitsWish {
            timeout: limits.timeout.map(Duration::from_millis),
            memory: limits.memory.map(mib),
            logs: limits.logs.map(mib),
            concurrency: limits.concurrency,
            instances: limits.instances.map(Some),
            ..LimitsWish::default()
        }
    }
}

/// Parses a PUT's body; the error is the detail of the API's "malformed" text.
pub fn put_body(bytes: &[u8]) -> Result<PutBody, String> {
    object(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(body: serde_json::Value) -> Result<PutBody, String> {
        put_body(&serde_json::to_vec(&body).unwrap())
    }

    #[test]
    fn what_clients_send_is_read() {
        let body = read(json!({
            "namespace": "_", "name": "x", "updated": 1, "publish": null, "trigger": null,
            "exec": {"kind": "java:default", "jar": "UEsDBA==", "main": "Hello", "binary": true},
            "parameters": [{"key": "a", "value": 1, "init": true, "encryption": null}],
            "annotations": [{"key": "final", "value": true}],
            "delAnnotations": ["old"],
            "limits": {"timeout": 5, "memory": 256, "logs": null},
            "version": "1.2.3"
        }))
        .unwrap();
        let exec = body.exec.as_ref().unwrap();
        assert_eq!((exec.code.as_deref(), exec.main.as_deref()), (Some("UEsDBA=="), Some("Hello")));
        let expected = LimitsWish {
            timeout: Some(Duration::from_millis(5)),
            memory: Some(ByteSize::mib(256)),
            ..LimitsWish::default()
        };
        assert_eq!((body.limits(), body.publish), (expected, None));
    }

    #[test]
    fn wrong_types_are_refused() {
        for body in [
            json!([]),
            json!({"parameters": {"a": 1}}),
            json!({"annotations": {"a": 1}}),
            json!({"parameters": [{"value": 1}]}),
            json!({"exec": {"code": "x"}}),
            json!({"exec": "code"}),
            json!({"limits": {"memory": -1}}),
            json!({"limits": {"memory": "256"}}),
            json!({"version": "one"}),
            json!({"version": 1.0}),
        ] {
            assert!(read(body.clone()).is_err(), "{body}");
        }
        assert!(
            put_body(b"").is_err() && put_body(b"{").is_err() && put_body(b"{\"exec\":\"\xff\"}").is_err()
        );
    }

    proptest! {
        #[test]
        fn no_body_panics(bytes: Vec<u8>) {
            let _ = put_body(&bytes).map(|body| body.limits());
        }
    }
}
