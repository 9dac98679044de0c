//! Configuration of functions' limits and their defaults.

use std::time::Duration;

use flint_invoker::units;
use flint_model::{ByteSize, FunctionLimits, LimitBounds};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LimitsConfig {
    pub(crate) invocations_per_minute: u32,
    pub(crate) concurrent_invocations: u32,
    pub(crate) fires_per_minute: u32,
    #[serde(with = "units::duration")]
    pub(crate) min_timeout: Duration,
    #[serde(with = "units::duration")]
    pub(crate) max_timeout: Duration,
    #[serde(with = "units::size")]
    pub(crate) min_memory: ByteSize,
    #[serde(with = "units::size")]
    pub(crate) max_memory: ByteSize,
    #[serde(with = "units::size")]
    pub(crate) min_logs: ByteSize,
    #[serde(with = "units::size")]
    pub(crate) max_logs: ByteSize,
    pub(crate) max_concurrency: u32,
    pub(crate) max_sequence: u32,
    #[serde(with = "units::size")]
    pub(crate) max_code: ByteSize,
    #[serde(with = "units::size")]
    pub(crate) max_parameters: ByteSize,
    #[serde(with = "units::size")]
    pub(crate) max_payload: ByteSize,
    #[serde(with = "units::size")]
    pub(crate) max_result: ByteSize,
    #[serde(with = "units::size")]
    pub(crate) truncation: ByteSize,
    #[serde(with = "units::size")]
    pub(crate) max_body: ByteSize,
    #[serde(with = "units::duration")]
    pub(crate) max_blocking_wait: Duration,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        let flint_controller::LimitsConfig {
            invocations_per_minute,
            concurrent_invocations,
            fires_per_minute,
            bounds,
        } = flint_controller::LimitsConfig::default();
        Self {
            invocations_per_minute,
            concurrent_invocations,
            fires_per_minute,
            min_timeout: bounds.min_timeout,
            max_timeout: bounds.max_timeout,
            min_memory: bounds.min_memory,
            max_memory: bounds.max_memory,
            min_logs: bounds.min_logs,
            max_logs: bounds.max_logs,
            max_concurrency: bounds.max_concurrency,
            max_sequence: bounds.max_sequence,
            max_code: bounds.max_code,
            max_parameters: bounds.max_parameters,
            max_payload: bounds.max_payload,
            max_result: bounds.max_result,
            truncation: bounds.truncation,
            max_body: bounds.max_body,
            max_blocking_wait: bounds.max_blocking_wait,
        }
    }
}

impl LimitsConfig {
    pub(crate) fn config(&self) -> flint_controller::LimitsConfig {
        flint_controller::LimitsConfig {
            invocations_per_minute: self.invocations_per_minute,
            concurrent_invocations: self.concurrent_invocations,
            fires_per_minute: self.fires_per_minute,
            bounds: self.bounds(),
        }
    }

    /// Checks that a function with default limits could be deployed.
    pub(crate) fn check(&self, defaults: &DefaultsConfig) -> Result<(), String> {
        let millis = |time: Duration| format!("{} ms", time.as_millis());
        let size = |size: ByteSize| size.to_string();
        check("memory", (self.min_memory, defaults.memory, self.max_memory), size)?;
        check("logs", (self.min_logs, defaults.logs, self.max_logs), size)?;
        check("timeout", (self.min_timeout, defaults.timeout, self.max_timeout), millis)?;
        if self.max_concurrency == 0 {
            return Err("limits.max_concurrency is 0, and a function has at least 1".to_owned());
        }
        if self.max_code == ByteSize::bytes(0) {
            return Err("limits.max_code is 0".to_owned());
        }
        defaults.limits().check().map_err(|senseless| format!("defaults: {senseless}"))
    }

    fn bounds(&self) -> LimitBounds {
        LimitBounds {
            min_timeout: self.min_timeout,
            max_timeout: self.max_timeout,
            min_memory: self.min_memory,
            max_memory: self.max_memory,
            min_logs: self.min_logs,
            max_logs: self.max_logs,
            min_concurrency: LimitBounds::default().min_concurrency,
            max_concurrency: self.max_concurrency,
            max_sequence: self.max_sequence,
            max_code: self.max_code,
            max_parameters: self.max_parameters,
            max_payload: self.max_payload,
            max_result: self.max_result,
            truncation: self.truncation,
            max_body: self.max_body,
            max_blocking_wait: self.max_blocking_wait,
        }
    }
}

/// Checks that a default is between the minimum and the maximum.
fn check<T: PartialOrd + Copy>(
    name: &str,
    (least, usual, most): (T, T, T),
    shown: impl Fn(T) -> String,
) -> Result<(), String> {
    if least > most {
        return Err(format!(
            "limits.min_{name} ({}) is above limits.max_{name} ({})",
            shown(least),
            shown(most)
        ));
    }
    if usual > most {
        return Err(format!(
            "defaults.{name} ({}) is above limits.max_{name} ({})",
            shown(usual),
            shown(most)
        ));
    }
    if usual < least {
        return Err(format!(
            "defaults.{name} ({}) is below limits.min_{name} ({})",
            shown(usual),
            shown(least)
        ));
    }
    Ok(())
}

/// Default limits of functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DefaultsConfig {
    #[serde(with = "units::duration")]
    pub(crate) timeout: Duration,
    #[serde(with = "units::size")]
    pub(crate) memory: ByteSize,
    #[serde(with = "units::size")]
    pub(crate) logs: ByteSize,
    pub(crate) cpu_millis: u32,
    pub(crate) processes: u32,
    #[serde(with = "units::size")]
    pub(crate) tmp: ByteSize,
}

impl Default for DefaultsConfig {
    fn default() -> Self {
        let limits = FunctionLimits::default();
        Self {
            timeout: limits.timeout,
            memory: limits.memory,
            logs: limits.logs,
            cpu_millis: limits.cpu_millis,
            processes: limits.processes,
            tmp: limits.tmp,
        }
    }
}

impl DefaultsConfig {
    pub(crate) fn limits(&self) -> FunctionLimits {
        FunctionLimits {
            timeout: self.timeout,
            memory: self.memory,
            logs: self.logs,
            cpu_millis: self.cpu_millis,
            processes: self.processes,
            tmp: self.tmp,
            ..FunctionLimits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_within_which_nothing_could_be_deployed_are_named() {
        let (limits, defaults) = (LimitsConfig::default(), DefaultsConfig::default());
        assert_eq!(limits.check(&defaults), Ok(()));
        let said = |limits: LimitsConfig| limits.check(&DefaultsConfig::default()).unwrap_err();
        let text = said(LimitsConfig { max_memory: ByteSize::bytes(1), ..limits.clone() });
        assert!(text.contains("limits.min_memory (128 MB) is above limits.max_memory (1 B)"), "{text}");
        let text = said(LimitsConfig { max_timeout: Duration::from_secs(1), ..limits.clone() });
        assert!(text.contains("defaults.timeout (60000 ms) is above limits.max_timeout (1000 ms)"), "{text}");
        let text = said(LimitsConfig { min_memory: ByteSize::mib(512), ..limits });
        assert!(text.contains("defaults.memory (256 MB) is below limits.min_memory (512 MB)"), "{text}");
        let limits = LimitsConfig::default();
        let text = said(LimitsConfig { max_concurrency: 0, ..limits.clone() });
        assert!(text.contains("limits.max_concurrency is 0"), "{text}");
        let text = said(LimitsConfig { max_code: ByteSize::bytes(0), ..limits.clone() });
        assert!(text.contains("limits.max_code is 0"), "{text}");
        for (defaults, part) in [
            (DefaultsConfig { processes: 0, ..DefaultsConfig::default() }, "processes 0 is not within"),
            (DefaultsConfig { cpu_millis: 1, ..DefaultsConfig::default() }, "cpu 1 is not within"),
            (DefaultsConfig { tmp: ByteSize::mib(512), ..DefaultsConfig::default() }, "tmp 512 MB exceeds"),
        ] {
            let text = limits.check(&defaults).unwrap_err();
            assert!(text.starts_with("defaults: ") && text.contains(part), "{text}");
        }
    }
}
