//! What differs for one namespace, in the words of OpenWhisk's `limits` document.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    LimitBounds,
    text::{duration_text, size_text},
};
use crate::{ByteSize, Kind};

/// What differs for one namespace from what the server's configuration says; absent = the server's value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct NamespaceLimits {
    /// Calls admitted per wall-clock minute; 0 = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invocations_per_minute: Option<u32>,
    /// Calls queued or running at once; 0 = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrent_invocations: Option<u32>,
    /// Trigger firings admitted per wall-clock minute; 0 = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fires_per_minute: Option<u32>,
    /// Kinds of functions it may have; absent = all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_kinds: Option<Vec<String>>,
    /// Whether activation records are kept; absent = yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_activations: Option<bool>,
    /// Smallest memory limit of a function, in MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_action_memory: Option<u32>,
    /// Largest memory limit of a function, in MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_action_memory: Option<u32>,
    /// Smallest log limit of a function, in MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_action_logs: Option<u32>,
    /// Largest log limit of a function, in MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_action_logs: Option<u32>,
    /// Shortest time limit of a function, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_action_timeout: Option<u32>,
    /// Longest time limit of a function, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_action_timeout: Option<u32>,
    /// Fewest calls at once in one instance that a function may ask for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_action_concurrency: Option<u32>,
    /// Most calls at once in one instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_action_concurrency: Option<u32>,
    /// Largest sum of parameters, and of annotations, of one entity: a number of bytes, or a text such as `2 MB`.
    #[serde(with = "size_text", skip_serializing_if = "Option::is_none")]
    pub max_parameter_size: Option<ByteSize>,
    /// Largest JSON body of a call; written in the same way.
    #[serde(with = "size_text", skip_serializing_if = "Option::is_none")]
    pub max_payload_size: Option<ByteSize>,
    /// How much of a result that is too large its error shows; written in the same way.
    #[serde(with = "size_text", skip_serializing_if = "Option::is_none")]
    pub truncation_size: Option<ByteSize>,
    /// Most instances at once that a function may ask for; absent = as many as calls at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_action_instances: Option<u32>,
    /// How many instances of each function stay longer than others when nobody calls them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmed_container_keeping_count: Option<u32>,
    /// How long they stay: a text such as `10min`, or `10 minutes` as OpenWhisk writes it; absent = [`KeepWarm::TIMEOUT`].
    #[serde(with = "duration_text", skip_serializing_if = "Option::is_none")]
    pub warmed_container_keeping_timeout: Option<Duration>,
}

/// Instances that stay longer than others when nobody calls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepWarm {
    /// How many of each function.
    pub count: u32,
    /// How long after their last call.
    pub timeout: Duration,
}

impl KeepWarm {
    /// OpenWhisk's default.
    pub const TIMEOUT: Duration = Duration::from_secs(600);
}

/// Limits that cannot be what was meant.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NamespaceLimitsError {
    /// A lower limit above the upper one.
    #[error("{least_name} is {least}, and {most_name} {most}: nothing would be allowed")]
    Conflicting {
        /// Name of the lower limit.
        least_name: &'static str,
        /// The lower limit.
        least: u64,
        /// Name of the upper limit.
        most_name: &'static str,
        /// The upper limit.
        most: u64,
    },
    /// A kind of no family that Flint has.
    #[error(
        "allowedKinds: there is no kind '{asked}'. Valid are {}, each alone or with a version, such as 'nodejs:20'",
        Kind::FAMILIES.join(", ")
    )]
    NoSuchKind {
        /// What was written.
        asked: String,
    },
}

impl NamespaceLimits {
    /// The bounds of this namespace: the server's, with its own in their place.
    pub fn bounds(&self, server: &LimitBounds) -> LimitBounds {
        let memory = |own: Option<u32>, server| own.map_or(server, |mb| ByteSize::mib(mb.into()));
        let time = |own: Option<u32>, server| own.map_or(server, |ms| Duration::from_millis(ms.into()));
        LimitBounds {
            min_timeout: time(self.min_action_timeout, server.min_timeout),
            max_timeout: time(self.max_action_timeout, server.max_timeout),
            min_memory: memory(self.min_action_memory, server.min_memory),
            max_memory: memory(self.max_action_memory, server.max_memory),
            min_logs: memory(self.min_action_logs, server.min_logs),
            max_logs: memory(self.max_action_logs, server.max_logs),
            min_concurrency: self.min_action_concurrency.unwrap_or(server.min_concurrency),
            max_concurrency: self.max_action_concurrency.unwrap_or(server.max_concurrency),
            max_parameters: self.max_parameter_size.unwrap_or(server.max_parameters),
            max_payload: self.max_payload_size.unwrap_or(server.max_payload),
            truncation: self.truncation_size.unwrap_or(server.truncation),
            ..server.clone()
        }
    }

    /// Which instances of its functions stay longer than others.
    pub fn keep_warm(&self) -> Option<KeepWarm> {
        let count = self.warmed_container_keeping_count.filter(|count| *count > 0)?;
        Some(KeepWarm { count, timeout: self.warmed_container_keeping_timeout.unwrap_or(KeepWarm::TIMEOUT) })
    }

    /// Whether any function could satisfy them on a server with these bounds. Kinds may have versions that this
    /// host lacks: runtimes are installed later, and the limits of a namespace may be set while no server runs.
    pub fn check(&self, server: &LimitBounds) -> Result<(), NamespaceLimitsError> {
        let exists =
            |kind: &str| kind.parse::<Kind>().is_ok_and(|kind| Kind::FAMILIES.contains(&kind.family()));
        if let Some(asked) = self.allowed_kinds.iter().flatten().find(|kind| !exists(kind)) {
            return Err(NamespaceLimitsError::NoSuchKind { asked: asked.clone() });
        }
        let own = self.bounds(server);
        let (least, most) = (own.min_timeout.as_millis() as u64, own.max_timeout.as_millis() as u64);
        for (least_name, least, most_name, most) in [
            ("minActionMemory", own.min_memory.as_mib(), "maxActionMemory", own.max_memory.as_mib()),
            ("minActionLogs", own.min_logs.as_mib(), "maxActionLogs", own.max_logs.as_mib()),
            ("minActionTimeout", least, "maxActionTimeout", most),
            (
                "minActionConcurrency",
                own.min_concurrency.into(),
                "maxActionConcurrency",
                own.max_concurrency.into(),
            ),
        ] {
            if least > most {
                return Err(NamespaceLimitsError::Conflicting { least_name, least, most_name, most });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespaces_own_limits_replace_the_servers_and_have_the_names_of_openwhisk() {
        let read = |text: &str| serde_json::from_str::<NamespaceLimits>(text);
        let server = LimitBounds::default();
        assert_eq!(NamespaceLimits::default().bounds(&server), server);
        let text = r#"{"maxActionMemory":2048,"minActionTimeout":1,"maxParameterSize":"2 KB","maxPayloadSize":"3 MB"}"#;
        let own = read(text).unwrap();
        assert_eq!(serde_json::to_string(&own).unwrap(), text);
        let expected = LimitBounds {
            max_memory: ByteSize::mib(2048),
            min_timeout: Duration::from_millis(1),
            max_parameters: ByteSize::kib(2),
            max_payload: ByteSize::mib(3),
            ..server.clone()
        };
        assert_eq!(own.bounds(&server), expected);
        assert_eq!(read(r#"{"maxPayloadSize":7}"#).unwrap().max_payload_size, Some(ByteSize::bytes(7)));
        assert_eq!(read(r#"{"maxPayloadSize":null}"#).unwrap().max_payload_size, None);
        for wrong in
            [r#"{"maxPayloadSize":"much"}"#, r#"{"maxPayloadSize":-1}"#, r#"{"maxActionMemory":"1 MB"}"#]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert_eq!(own.check(&server), Ok(()));
        let contrary = read(r#"{"maxActionMemory":64}"#).unwrap().check(&server).unwrap_err().to_string();
        assert_eq!(contrary, "minActionMemory is 128, and maxActionMemory 64: nothing would be allowed");
        assert!(read(r#"{"maxActionConcurrency":0}"#).unwrap().check(&server).is_err());
        assert!(read(r#"{"minActionConcurrency":2}"#).unwrap().check(&server).is_err());
        for kinds in [
            r#"["nodejs"]"#,
            r#"["nodejs:default","python:3"]"#,
            r#"["nodejs:99"]"#,
            r#"[" NodeJS:20 "]"#,
            r#"["native","wasm"]"#,
            "[]",
        ] {
            let limits = read(&format!(r#"{{"allowedKinds":{kinds}}}"#)).unwrap();
            assert_eq!(limits.check(&server), Ok(()), "{kinds}");
        }
        for wrong in ["cobol", "node:20", "nodejs:", "", "no kind"] {
            let limits = read(&format!(r#"{{"allowedKinds":["go","{wrong}"]}}"#)).unwrap();
            let text = limits.check(&server).unwrap_err().to_string();
            assert!(text.contains(&format!("'{wrong}'")) && text.contains("nodejs, python"), "{text}");
        }
        let cut = read(r#"{"truncationSize":"1 KB","maxActionInstances":3}"#).unwrap();
        assert_eq!((cut.bounds(&server).truncation, cut.max_action_instances), (ByteSize::kib(1), Some(3)));
    }

    #[test]
    fn instances_are_kept_warm_where_a_namespace_says_how_many() {
        let read = |text: &str| serde_json::from_str::<NamespaceLimits>(text);
        let kept =
            |text: &str| read(text).unwrap().keep_warm().map(|kept| (kept.count, kept.timeout.as_secs()));
        assert_eq!(kept(r#"{"warmedContainerKeepingCount":2}"#), Some((2, 600)));
        for text in ["20min", "20 minutes", "1200 s", "1200000ms"] {
            let limits =
                format!(r#"{{"warmedContainerKeepingCount":1,"warmedContainerKeepingTimeout":"{text}"}}"#);
            assert_eq!(kept(&limits), Some((1, 1200)), "{text}");
            let shown = serde_json::to_string(&read(&limits).unwrap()).unwrap();
            assert!(shown.ends_with(r#""warmedContainerKeepingTimeout":"20min"}"#), "{shown}");
        }
        assert_eq!(kept(r#"{"warmedContainerKeepingCount":0}"#), None);
        assert_eq!(kept(r#"{"warmedContainerKeepingTimeout":"1h"}"#), None);
        for wrong in [r#""soon""#, "7", r#""10 fortnights""#] {
            assert!(read(&format!(r#"{{"warmedContainerKeepingTimeout":{wrong}}}"#)).is_err(), "{wrong}");
        }
    }
}
