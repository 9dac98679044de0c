//! What one function, and one namespace, may use.

use std::{num::NonZeroU32, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{ByteSize, duration::millis};

/// What one instance of a function may use. The time limit holds for initialisation and for each call separately.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FunctionLimits {
    /// How long initialisation, and each call, may take.
    #[serde(rename = "timeout_ms", with = "millis")]
    pub timeout: Duration,
    /// Resident memory of the whole instance, its `/tmp` included.
    pub memory: ByteSize,
    /// How much one activation may log.
    pub logs: ByteSize,
    /// Calls at once in one instance.
    pub concurrency: NonZeroU32,
    /// Instances of this function at once; absent = as many as memory allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<NonZeroU32>,
    /// CPU time per second of wall time, in thousandths of a core.
    pub cpu_millis: u32,
    /// Processes and threads at once.
    pub processes: u32,
    /// Size of `/tmp`.
    pub tmp: ByteSize,
}

impl Default for FunctionLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            memory: ByteSize::mib(256),
            logs: ByteSize::mib(10),
            concurrency: NonZeroU32::MIN,
            instances: None,
            cpu_millis: 1000,
            processes: 1024,
            tmp: ByteSize::mib(64),
        }
    }
}

/// Limits that no function can have, whatever the operator allows.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SenselessLimits {
    /// Too little of the processor, or more than there is anywhere.
    #[error("cpu {0} is not within 10 to 64000 thousandths of a core")]
    Cpu(u32),
    /// No process, or more than a host has.
    #[error("processes {0} is not within 1 to 32768")]
    Processes(u32),
    /// More in `/tmp` than in all.
    #[error("tmp {tmp} exceeds the memory limit of {memory}: /tmp is part of it")]
    Tmp {
        /// What there is to be in `/tmp`.
        tmp: ByteSize,
        /// And in all.
        memory: ByteSize,
    },
    /// No time.
    #[error("a time limit of less than 1 millisecond")]
    Time,
}

impl FunctionLimits {
    /// Whether anything could run within them.
    pub fn check(&self) -> Result<(), SenselessLimits> {
        if !(10..=64_000).contains(&self.cpu_millis) {
            return Err(SenselessLimits::Cpu(self.cpu_millis));
        }
        if !(1..=32_768).contains(&self.processes) {
            return Err(SenselessLimits::Processes(self.processes));
        }
        if self.tmp > self.memory {
            return Err(SenselessLimits::Tmp { tmp: self.tmp, memory: self.memory });
        }
        if self.timeout < Duration::from_millis(1) {
            return Err(SenselessLimits::Time);
        }
        Ok(())
    }
}

/// What the operator allows functions to ask for, and what passes through the API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitBounds {
    /// Shortest time limit.
    #[serde(rename = "min_timeout_ms", with = "millis")]
    pub min_timeout: Duration,
    /// Longest time limit.
    #[serde(rename = "max_timeout_ms", with = "millis")]
    pub max_timeout: Duration,
    /// Smallest memory limit.
    pub min_memory: ByteSize,
    /// Largest memory limit.
    pub max_memory: ByteSize,
    /// Smallest log limit.
    pub min_logs: ByteSize,
    /// Largest log limit.
    pub max_logs: ByteSize,
    /// Fewest calls at once in one instance that a function may ask for.
    pub min_concurrency: u32,
    /// Most calls at once in one instance.
    pub max_concurrency: u32,
    /// Most functions of a sequence, and most that a composition calls.
    pub max_sequence: u32,
    /// Largest code.
    pub max_code: ByteSize,
    /// Largest sum of parameters, and of annotations, of one entity.
    pub max_parameters: ByteSize,
    /// Largest JSON body of a call.
    pub max_payload: ByteSize,
    /// Largest JSON result.
    pub max_result: ByteSize,
    /// How much of a larger one is shown in the error.
    pub truncation: ByteSize,
    /// Largest streamed or binary request body.
    pub max_body: ByteSize,
    /// Longest time a blocking call waits before it is answered with 202.
    #[serde(rename = "max_blocking_wait_ms", with = "millis")]
    pub max_blocking_wait: Duration,
}

impl Default for LimitBounds {
    fn default() -> Self {
        Self {
            min_timeout: Duration::from_millis(100),
            max_timeout: Duration::from_secs(300),
            min_memory: ByteSize::mib(128),
            max_memory: ByteSize::mib(512),
            min_logs: ByteSize::bytes(0),
            max_logs: ByteSize::mib(10),
            min_concurrency: 1,
            max_concurrency: 1,
            max_sequence: 50,
            max_code: ByteSize::mib(48),
            max_parameters: ByteSize::mib(1),
            max_payload: ByteSize::mib(1),
            max_result: ByteSize::mib(1),
            truncation: ByteSize::mib(1),
            max_body: ByteSize::mib(256),
            max_blocking_wait: Duration::from_secs(60),
        }
    }
}

/// A limit outside what the operator allows. The texts are those of the OpenWhisk API.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LimitError {
    /// Too much.
    #[error("{what} {asked} {unit} exceeds allowed threshold of {allowed} {unit}")]
    Above {
        /// What was asked for.
        what: &'static str,
        /// How much of it.
        asked: u64,
        /// The most there is.
        allowed: u64,
        /// The unit of both.
        unit: &'static str,
    },
    /// Too little.
    #[error("{what} {asked} {unit} below allowed threshold of {allowed} {unit}")]
    Below {
        /// What was asked for.
        what: &'static str,
        /// How much of it.
        asked: u64,
        /// The least there is.
        allowed: u64,
        /// The unit of both.
        unit: &'static str,
    },
    /// More calls at once than allowed.
    #[error("concurrency {asked} exceeds allowed threshold of {allowed}")]
    Concurrency {
        /// How many were asked for.
        asked: u32,
        /// The most there may be.
        allowed: u32,
    },
    /// Fewer calls at once than are to be.
    #[error("concurrency {asked} below allowed threshold of {allowed}")]
    TooFewAtOnce {
        /// How many were asked for.
        asked: u32,
        /// The fewest there may be.
        allowed: u32,
    },
}

impl LimitBounds {
    /// Whether `limits` stay within these bounds; the first that does not is named.
    pub fn check(&self, limits: &FunctionLimits) -> Result<(), LimitError> {
        let within = |what, asked: u64, least: u64, most: u64, unit| {
            if asked > most {
                Err(LimitError::Above { what, asked, allowed: most, unit })
            } else if asked < least {
                Err(LimitError::Below { what, asked, allowed: least, unit })
            } else {
                Ok(())
            }
        };
        let millis = |duration: Duration| duration.as_millis() as u64;
        within(
            "duration",
            millis(limits.timeout),
            millis(self.min_timeout),
            millis(self.max_timeout),
            "milliseconds",
        )?;
        within(
            "memory size",
            limits.memory.as_mib(),
            self.min_memory.as_mib(),
            self.max_memory.as_mib(),
            "MB",
        )?;
        within("logs size", limits.logs.as_mib(), self.min_logs.as_mib(), self.max_logs.as_mib(), "MB")?;
        let concurrency = limits.concurrency.get();
        if concurrency > self.max_concurrency {
            return Err(LimitError::Concurrency { asked: concurrency, allowed: self.max_concurrency });
        }
        if concurrency < self.min_concurrency {
            return Err(LimitError::TooFewAtOnce { asked: concurrency, allowed: self.min_concurrency });
        }
        Ok(())
    }
}

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
    /// What OpenWhisk's timeout is, where there is none.
    pub const TIMEOUT: Duration = Duration::from_secs(600);
}

/// A least that is more than the most.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{least_name} is {least}, and {most_name} {most}: nothing would be allowed")]
pub struct ContraryLimits {
    least_name: &'static str,
    least: u64,
    most_name: &'static str,
    most: u64,
}

impl NamespaceLimits {
    /// What holds for functions and calls of the namespace, where this holds for the server.
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

    /// Whether any function could be within them, on a server with these bounds.
    pub fn check(&self, server: &LimitBounds) -> Result<(), ContraryLimits> {
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
                return Err(ContraryLimits { least_name, least, most_name, most });
            }
        }
        Ok(())
    }
}

/// A size as OpenWhisk writes it, `1 MB`, or as a number of bytes.
mod size_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::ByteSize;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Bytes(u64),
        Text(String),
    }

    pub(super) fn serialize<S: Serializer>(
        size: &Option<ByteSize>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match size {
            Some(size) => serializer.collect_str(size),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<ByteSize>, D::Error> {
        Ok(match Option::<Written>::deserialize(deserializer)? {
            None => None,
            Some(Written::Bytes(bytes)) => Some(ByteSize::bytes(bytes)),
            Some(Written::Text(text)) => Some(text.parse().map_err(D::Error::custom)?),
        })
    }
}

/// A duration as text, in short or in OpenWhisk's words.
mod duration_text {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::{parse_duration, show_duration};

    pub(super) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => serializer.serialize_str(&show_duration(*duration)),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        let read = parse_duration(&in_short(&text));
        read.map(Some).ok_or_else(|| D::Error::custom(format!("{text:?} is no duration such as 10min")))
    }

    /// `10 minutes` as `10 min`.
    fn in_short(text: &str) -> String {
        let Some((number, unit)) = text.trim().split_once(' ') else { return text.to_owned() };
        let short = match unit.trim() {
            "millisecond" | "milliseconds" => "ms",
            "second" | "seconds" => "s",
            "minute" | "minutes" => "min",
            "hour" | "hours" => "h",
            unit => unit,
        };
        format!("{number} {short}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_outside_the_bounds_are_refused_in_the_words_of_openwhisk() {
        let bounds = LimitBounds::default();
        assert_eq!(bounds.check(&FunctionLimits::default()), Ok(()));
        let text = |limits| bounds.check(&limits).unwrap_err().to_string();
        let limits = FunctionLimits { memory: ByteSize::mib(1024), ..Default::default() };
        assert_eq!(text(limits), "memory size 1024 MB exceeds allowed threshold of 512 MB");
        let limits = FunctionLimits { memory: ByteSize::mib(1), ..Default::default() };
        assert_eq!(text(limits), "memory size 1 MB below allowed threshold of 128 MB");
        let limits = FunctionLimits { timeout: Duration::from_millis(300_001), ..Default::default() };
        assert_eq!(
            text(limits),
            "duration 300001 milliseconds exceeds allowed threshold of 300000 milliseconds"
        );
        let limits = FunctionLimits { concurrency: NonZeroU32::new(2).unwrap(), ..Default::default() };
        assert_eq!(text(limits), "concurrency 2 exceeds allowed threshold of 1");
        let several = LimitBounds { min_concurrency: 3, max_concurrency: 8, ..LimitBounds::default() };
        let refused = several.check(&FunctionLimits::default()).unwrap_err().to_string();
        assert_eq!(refused, "concurrency 1 below allowed threshold of 3");
    }

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
