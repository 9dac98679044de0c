//! What the operator allows functions to ask for, and what passes through the API.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::FunctionLimits;
use crate::{ByteSize, duration::millis};

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
    /// Fewer calls at once than required.
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

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

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
}
