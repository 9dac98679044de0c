//! Which accepted calls are attempted again, when, and how often.

use std::{fmt, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::{
    ActivationId,
    duration::{millis, optional_millis, parse_duration, show_duration},
    splitmix,
    strategy::axis,
};

axis! {
    /// A way in which an attempt can fail.
    FailureKind as "failure" {
        /// Flint or the host failed, or the server went away in the middle.
        Platform = "platform",
        /// The function exceeded its time limit.
        Timeout = "timeout",
        /// The function did not answer: it does not load, crashed, or exceeded its memory.
        Developer = "developer",
        /// The function answered with an error of its own.
        Application = "application",
    }
}

axis! {
    /// Why an accepted call is not attempted again.
    DeadLetterReason as "reason" {
        /// It had all its attempts.
        AttemptsUsed = "attempts_used",
        /// It was accepted longer ago than its policy lets an attempt begin.
        TooOld = "too_old",
        /// Its namespace has as many calls waiting for a further attempt as may wait.
        TooManyWaiting = "too_many_waiting",
        /// What it calls is not there any more.
        FunctionGone = "function_gone",
    }
}

impl FailureKind {
    const ALL: [Self; 4] = [Self::Platform, Self::Timeout, Self::Developer, Self::Application];

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Some ways in which an attempt can fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureKinds(u8);

impl FailureKinds {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// Those that are not the function's doing.
    pub const PLATFORM: Self = Self(FailureKind::Platform.bit());
    /// What is tried again for a function that asks for retries and does not say when: everything but its own errors.
    pub const NO_ANSWER: Self =
        Self(FailureKind::Platform.bit() | FailureKind::Timeout.bit() | FailureKind::Developer.bit());

    /// Whether `kind` is one of them.
    pub const fn contains(self, kind: FailureKind) -> bool {
        self.0 & kind.bit() != 0
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = FailureKind> {
        FailureKind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }
}

impl FromIterator<FailureKind> for FailureKinds {
    fn from_iter<I: IntoIterator<Item = FailureKind>>(kinds: I) -> Self {
        Self(kinds.into_iter().fold(0, |bits, kind| bits | kind.bit()))
    }
}

impl fmt::Display for FailureKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.iter().map(FailureKind::as_str).collect();
        f.write_str(&words.join(", "))
    }
}

impl Serialize for FailureKinds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for FailureKinds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<FailureKind>::deserialize(deserializer)?.into_iter().collect())
    }
}

/// What holds for one accepted call, fixed when it was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// Attempts in all, at least 1.
    pub max_attempts: u32,
    /// How long after the first failed attempt the second one comes; doubled for each further one.
    #[serde(rename = "backoff_ms", with = "millis")]
    pub backoff: Duration,
    /// The longest such time.
    #[serde(rename = "max_backoff_ms", with = "millis")]
    pub max_backoff: Duration,
    /// No attempt begins when the call was accepted longer ago than this.
    #[serde(
        rename = "max_age_ms",
        with = "optional_millis",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub max_age: Option<Duration>,
    /// Which failures are attempted again, and leave a dead letter when no attempt is left. Any other end is an answer.
    pub on: FailureKinds,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(300),
            max_age: None,
            on: FailureKinds::PLATFORM,
        }
    }
}

impl RetryPolicy {
    /// How long the call waits after its `failed`th attempt (from 1): the back-off, doubled for each failed attempt up to its ceiling. Up to half
    /// of it is left to chance, so that calls that failed together do not come back together; the same call and attempt always get the same
    /// delay.
    pub fn delay(&self, call: ActivationId, failed: u32) -> Duration {
        let doubled =
            2_u32.checked_pow(failed.saturating_sub(1)).and_then(|times| self.backoff.checked_mul(times));
        let whole = doubled.map_or(self.max_backoff, |delay| delay.min(self.max_backoff)).as_millis() as u64;
        let chance = scattered(call, failed) % (whole / 2 + 1);
        Duration::from_millis(whole - chance)
    }
}

/// A number that looks random, always the same for a call and attempt.
fn scattered(call: ActivationId, failed: u32) -> u64 {
    let id = call.as_u128();
    splitmix::finalise(
        (id as u64)
            ^ ((id >> 64) as u64).rotate_left(17)
            ^ u64::from(failed).wrapping_mul(0x9E37_79B9_7F4A_7C15),
    )
}

/// What a user says about retries of a function or sequence, in the annotation [`RetryOptions::ANNOTATION`]; what is absent has its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryOptions {
    /// Further attempts after the first.
    pub retries: Option<u32>,
    /// How long after the first failed attempt the second one comes; doubled for each further one.
    pub backoff: Option<Duration>,
    /// The longest such time.
    pub max_backoff: Option<Duration>,
    /// No attempt begins when the call was accepted longer ago than this.
    pub max_age: Option<Duration>,
    /// Which failures are attempted again; [`FailureKind::Platform`] always is.
    pub on: Option<FailureKinds>,
}

/// Why retry options are refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the annotation 'flint-retry' is not understood: {0}")]
pub struct RetryError(String);

impl RetryOptions {
    /// Where they are kept: `{"retries":4,"backoff":"1s","max_backoff":"5min","max_age":"6h","on":["timeout","developer"]}`, or just the number of
    /// retries.
    pub const ANNOTATION: &'static str = "flint-retry";

    /// The most retries there may be.
    pub const MAX_RETRIES: u32 = 100;
    /// The longest back-off there may be.
    pub const MAX_BACKOFF: Duration = Duration::from_secs(24 * 3600);
    /// The longest age there may be.
    pub const MAX_AGE: Duration = Duration::from_secs(14 * 24 * 3600);

    /// Reads the annotation. `null` says nothing.
    pub fn of_annotation(value: &Value) -> Result<Option<Self>, RetryError> {
        let mut keys = match value {
            Value::Null => return Ok(None),
            Value::Number(_) => Map::from_iter([("retries".to_owned(), value.clone())]),
            Value::Object(keys) => keys.clone(),
            other => return Err(RetryError(format!("{other} is neither a number of retries nor an object"))),
        };
        let mut time = |key: &str| {
            match keys.remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => duration_of(&value).map(Some).ok_or_else(|| {
                RetryError(format!("{key} {value} is not a time: write '500ms', '10s', '5min' or '1h', or a number of milliseconds"))
            }),
        }
        };
        let (backoff, max_backoff, max_age) = (time("backoff")?, time("max_backoff")?, time("max_age")?);
        let retries = match keys.remove("retries") {
            None | Some(Value::Null) => None,
            Some(value) => {
                Some(value.as_u64().and_then(|number| u32::try_from(number).ok()).ok_or_else(|| {
                    RetryError(format!("retries {value} is not a whole number of 0 to {}", Self::MAX_RETRIES))
                })?)
            }
        };
        let on = match keys.remove("on") {
            None | Some(Value::Null) => None,
            Some(Value::String(word)) => Some(kinds(word.split(',').map(str::trim))?),
            Some(Value::Array(words)) => {
                Some(kinds(words.iter().map(|word| word.as_str().unwrap_or_default()))?)
            }
            Some(other) => return Err(RetryError(format!("on {other} is not a list of failures"))),
        };
        if let Some((unknown, _)) = keys.iter().next() {
            return Err(RetryError(format!(
                "it has no '{unknown}': there are retries, backoff, max_backoff, max_age and on"
            )));
        }
        let options = Self { retries, backoff, max_backoff, max_age, on };
        options.check()?;
        Ok(Some(options))
    }

    /// As the annotation has it.
    pub fn to_annotation(&self) -> Value {
        let mut keys = Map::new();
        let mut set =
            |key: &str, value: Option<Value>| drop(value.map(|value| keys.insert(key.to_owned(), value)));
        set("retries", self.retries.map(Value::from));
        set("backoff", self.backoff.map(|time| show_duration(time).into()));
        set("max_backoff", self.max_backoff.map(|time| show_duration(time).into()));
        set("max_age", self.max_age.map(|time| show_duration(time).into()));
        set("on", self.on.map(|on| json!(on)));
        Value::Object(keys)
    }

    fn check(&self) -> Result<(), RetryError> {
        if let Some(retries) = self.retries.filter(|retries| *retries > Self::MAX_RETRIES) {
            return Err(RetryError(format!(
                "{retries} retries are more than the {} there may be",
                Self::MAX_RETRIES
            )));
        }
        for (key, time, most) in [
            ("backoff", self.backoff, Self::MAX_BACKOFF),
            ("max_backoff", self.max_backoff, Self::MAX_BACKOFF),
            ("max_age", self.max_age, Self::MAX_AGE),
        ] {
            match time {
                Some(time) if time > most => {
                    let (time, most) = (show_duration(time), show_duration(most));
                    return Err(RetryError(format!("{key} {time} is longer than the {most} there may be")));
                }
                Some(Duration::ZERO) => return Err(RetryError(format!("{key} is 0: write at least '1ms'"))),
                _ => {}
            }
        }
        match (self.backoff, self.max_backoff) {
            (Some(backoff), Some(most)) if backoff > most => Err(RetryError(format!(
                "backoff {} is longer than max_backoff {}",
                show_duration(backoff),
                show_duration(most)
            ))),
            _ => Ok(()),
        }
    }

    /// What holds for a call, where `default` says the rest.
    pub fn over(&self, default: &RetryPolicy) -> RetryPolicy {
        // Of the two, what is said holds, and not what the server has for the other one.
        let usual = self.max_backoff.map_or(default.backoff, |most| default.backoff.min(most));
        let backoff = self.backoff.unwrap_or(usual);
        let on = self.on.unwrap_or(FailureKinds::NO_ANSWER);
        RetryPolicy {
            max_attempts: self.retries.map_or(default.max_attempts, |retries| retries.saturating_add(1)),
            backoff,
            max_backoff: self.max_backoff.unwrap_or(default.max_backoff).max(backoff),
            max_age: self.max_age.or(default.max_age),
            on: on.iter().chain(FailureKinds::PLATFORM.iter()).collect(),
        }
    }
}

fn duration_of(value: &Value) -> Option<Duration> {
    match value {
        Value::String(text) => parse_duration(text),
        value => value.as_u64().map(Duration::from_millis),
    }
}

fn kinds<'a>(words: impl Iterator<Item = &'a str>) -> Result<FailureKinds, RetryError> {
    words.map(|word| word.parse::<FailureKind>().map_err(|error| RetryError(error.to_string()))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::{array::uniform3, option, prelude::*};

    use super::*;

    fn read(value: Value) -> Result<RetryOptions, String> {
        RetryOptions::of_annotation(&value).map(Option::unwrap).map_err(|error| error.to_string())
    }

    #[test]
    fn an_annotation_is_a_number_or_an_object() {
        assert_eq!(RetryOptions::of_annotation(&Value::Null), Ok(None));
        assert_eq!(read(json!(4)).unwrap(), RetryOptions { retries: Some(4), ..RetryOptions::default() });
        let all = json!({"retries": 0, "backoff": "1s", "max_backoff": "5min", "max_age": "6h", "on": ["timeout", "application"]});
        let options = read(all.clone()).unwrap();
        assert_eq!(options.to_annotation(), all);
        let millis = json!({"backoff": 250, "on": "developer, timeout"});
        let options = read(millis).unwrap();
        assert_eq!((options.backoff, options.retries), (Some(Duration::from_millis(250)), None));
        assert_eq!(options.on.unwrap().to_string(), "timeout, developer");
        assert_eq!(read(options.to_annotation()).unwrap(), options);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_it_is() {
        for (value, said) in [
            (json!("4"), "neither a number of retries nor an object"),
            (json!([4]), "neither a number of retries nor an object"),
            (json!(-1), "retries -1 is not a whole number"),
            (json!(1.5), "retries 1.5 is not a whole number"),
            (json!(101), "101 retries are more than the 100"),
            (json!({"retries": "x"}), "retries \"x\" is not"),
            (json!({"backoff": "soon"}), "backoff \"soon\" is not a time"),
            (json!({"backoff": -5}), "backoff -5 is not a time"),
            (json!({"backoff": 0}), "backoff is 0"),
            (json!({"backoff": "25h"}), "backoff 25h is longer than the 24h"),
            (json!({"max_age": "337h"}), "max_age 337h is longer than the 336h"),
            (json!({"backoff": "2s", "max_backoff": "1s"}), "backoff 2s is longer than max_backoff 1s"),
            (
                json!({"on": ["errors"]}),
                "'errors' is not a value of failure: choose one of platform, timeout",
            ),
            (json!({"on": [1]}), "'' is not a value of failure"),
            (json!({"on": {"a": 1}}), "is not a list of failures"),
            (json!({"attempts": 3}), "it has no 'attempts'"),
        ] {
            let error = read(value.clone()).unwrap_err();
            assert!(error.contains(said) && error.contains("flint-retry"), "{value}: {error}");
        }
    }

    #[test]
    fn what_is_not_said_is_as_the_server_has_it() {
        let default = RetryPolicy { max_age: Some(Duration::from_secs(9)), ..RetryPolicy::default() };
        let policy = read(json!({})).unwrap().over(&default);
        assert_eq!(policy, RetryPolicy { on: FailureKinds::NO_ANSWER, ..default.clone() });
        let policy =
            read(json!({"retries": 0, "backoff": "1h", "on": ["application"]})).unwrap().over(&default);
        assert_eq!((policy.max_attempts, policy.max_backoff), (1, Duration::from_secs(3600)));
        assert_eq!(policy.on.to_string(), "platform, application", "the platform's failures always count");
        let policy = read(json!({"max_backoff": "200ms"})).unwrap().over(&default);
        let most = Duration::from_millis(200);
        assert_eq!((policy.backoff, policy.max_backoff), (most, most), "the server's is longer");
        let policy = read(json!({"max_backoff": "1h"})).unwrap().over(&default);
        assert_eq!((policy.backoff, policy.max_backoff), (default.backoff, Duration::from_secs(3600)));
        let stored = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<RetryPolicy>(&stored).unwrap(), policy);
    }

    proptest! {
        #[test]
        fn what_is_said_is_read_back_and_holds(
            retries in option::of(0..=100_u32), [backoff, max_backoff, max_age] in uniform3(option::of(1..80_000_000_u64)),
            on in option::of(0..16_u8), id in any::<u128>(),
        ) {
            let time = |millis: Option<u64>| millis.map(Duration::from_millis);
            let (backoff, max_backoff, max_age) = (time(backoff), time(max_backoff), time(max_age));
            let options = RetryOptions { retries, backoff, max_backoff, max_age, on: on.map(FailureKinds) };
            prop_assume!(options.check().is_ok());
            let policy = options.over(&RetryPolicy::default());
            prop_assert_eq!(RetryOptions::of_annotation(&options.to_annotation()), Ok(Some(options)));
            prop_assert!(policy.backoff <= policy.max_backoff);
            prop_assert!(backoff.is_none_or(|said| policy.backoff == said));
            prop_assert!(max_backoff.is_none_or(|said| policy.max_backoff == said));
            for failed in 1..40 {
                let delay = policy.delay(ActivationId::from_u128(id), failed);
                prop_assert!(max_backoff.is_none_or(|said| delay <= said), "{:?}", delay);
            }
            let stored = serde_json::to_string(&policy).unwrap();
            prop_assert_eq!(serde_json::from_str::<RetryPolicy>(&stored).unwrap(), policy);
        }

        #[test]
        fn a_delay_doubles_up_to_its_ceiling_and_half_of_it_is_chance(
            backoff in 1..100_000_u64, ceiling in 1..10_000_000_u64, failed in 1..200_u32, id in any::<u128>(),
        ) {
            let policy = RetryPolicy {
                backoff: Duration::from_millis(backoff),
                max_backoff: Duration::from_millis(ceiling),
                ..RetryPolicy::default()
            };
            let call = ActivationId::from_u128(id);
            let whole = 2_f64.powi(failed as i32 - 1) * backoff as f64;
            let whole = whole.min(ceiling as f64) as u64;
            let delay = policy.delay(call, failed).as_millis() as u64;
            prop_assert!(delay <= whole && delay >= whole - whole / 2, "{} of {}", delay, whole);
            prop_assert_eq!(policy.delay(call, failed).as_millis() as u64, delay);
        }
    }

    #[test]
    fn calls_that_failed_together_are_spread() {
        let policy = RetryPolicy {
            backoff: Duration::from_secs(1000),
            max_backoff: Duration::from_secs(1000),
            ..RetryPolicy::default()
        };
        let mut parts = [0; 10];
        for _ in 0..10_000 {
            let delay = policy.delay(ActivationId::generate(), 1).as_millis() as usize;
            parts[((delay - 500_000) / 50_001).min(9)] += 1;
        }
        assert!(parts.iter().all(|part| (700..1300).contains(part)), "{parts:?}");
    }
}
