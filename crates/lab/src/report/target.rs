//! Promises and their measurements.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::ArmReport;

/// A promise and what was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Target {
    /// The promise's number in the specification, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<String>,
    /// What was promised, with its unit.
    pub name: String,
    /// The measured value, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The promised bound: `<= 100`, `>= 7000`.
    pub target: String,
    /// Whether it holds; absent if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
    /// Independent of noise: judged on any host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exact: bool,
    /// The arms whose figures decide it, as far as they may be unavailable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub about: Vec<About>,
    /// Why it is not judged, if for a reason of its own; serialised as the fields `why` and `unjudged`.
    #[serde(flatten)]
    pub unjudged: Option<Unjudged>,
}

impl Target {
    /// A promise that the value is at most `most`.
    pub fn at_most(name: &str, value: Option<f64>, most: f64) -> Self {
        Self::that(name, value, format!("<= {}", shown(most)), |value| value <= most)
    }

    /// A promise that the value is at least `least`.
    pub fn at_least(name: &str, value: Option<f64>, least: f64) -> Self {
        Self::that(name, value, format!(">= {}", shown(least)), |value| value >= least)
    }

    /// NaN and infinities count as not measured, and are null in JSON.
    fn that(name: &str, value: Option<f64>, target: String, holds: impl FnOnce(f64) -> bool) -> Self {
        let value = value.filter(|value| value.is_finite());
        Self {
            promise: None,
            name: name.into(),
            value,
            target,
            met: value.map(holds),
            exact: false,
            about: Vec::new(),
            unjudged: None,
        }
    }

    /// Marks a target that noise cannot affect, such as the size of a file.
    #[must_use]
    pub fn exactly(self) -> Self {
        Self { exact: true, ..self }
    }

    /// Removes the value, if there is a reason not to judge it.
    #[must_use]
    pub fn unless(self, why: Option<Unjudged>) -> Self {
        match why {
            None => self,
            Some(why) => Self { value: None, met: None, unjudged: Some(why), ..self },
        }
    }

    /// Adds an arm, and the function that it calls if it has several.
    #[must_use]
    pub fn about(mut self, arm: &str, function: Option<&str>) -> Self {
        self.about.push(About { arm: arm.to_owned(), function: function.map(str::to_owned) });
        self
    }

    /// Sets the promise's number.
    pub fn of(self, promise: impl Into<Option<&'static str>>) -> Self {
        Self { promise: promise.into().map(str::to_owned), ..self }
    }
}

/// An arm that a promise is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Its name.
    pub arm: String,
    /// The function it calls; any, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
}

impl About {
    /// Whether this is its row.
    pub fn is(&self, row: &ArmReport) -> bool {
        self.arm == row.arm && (self.function.is_none() || self.function == row.function)
    }
}

/// Why a promise is not judged although something was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub enum Unjudged {
    /// The host was noisy.
    Noise(String),
    /// The measurement differs from what is promised, in this way.
    NotMeasured(String),
}

/// The prefix of a reason of noise.
const NOISE: &str = "host too noisy: ";

impl fmt::Display for Unjudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Noise(why) => write!(f, "{NOISE}{why}"),
            Self::NotMeasured(why) => write!(f, "not measured: {why}"),
        }
    }
}

/// The serialised form.
#[derive(Serialize, Deserialize)]
struct Written {
    /// For noise, with its prefix.
    why: String,
    /// Absent in older reports, where the prefix tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unjudged: Option<Kind>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Noise,
    NotMeasured,
}

impl From<Unjudged> for Written {
    fn from(reason: Unjudged) -> Self {
        match reason {
            Unjudged::Noise(why) => Self { why: format!("{NOISE}{why}"), unjudged: Some(Kind::Noise) },
            Unjudged::NotMeasured(why) => Self { why, unjudged: Some(Kind::NotMeasured) },
        }
    }
}

impl From<Written> for Unjudged {
    fn from(Written { why, unjudged }: Written) -> Self {
        match (unjudged, why.strip_prefix(NOISE)) {
            (Some(Kind::Noise) | None, Some(noise)) => Self::Noise(noise.to_owned()),
            (Some(Kind::Noise), None) => Self::Noise(why),
            (Some(Kind::NotMeasured) | None, _) => Self::NotMeasured(why),
        }
    }
}

/// A bound for people: at most two decimals.
fn shown(bound: f64) -> String {
    let text = format!("{bound:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(unjudged: Option<Unjudged>) -> Value {
        serde_json::to_value(Target::at_most("t", Some(1.0), 2.0).unless(unjudged)).unwrap()
    }

    fn read(reason: &Value) -> Option<Unjudged> {
        let mut target = json!({ "name": "t", "target": "<= 2" });
        target.as_object_mut().unwrap().extend(reason.as_object().unwrap().clone());
        serde_json::from_value::<Target>(target).unwrap().unjudged
    }

    #[test]
    fn a_reason_is_written_as_it_is_read_with_its_kind() {
        let noise = Unjudged::Noise("a: others".into());
        let other = Unjudged::NotMeasured("another size".into());
        let expected =
            json!({ "name": "t", "target": "<= 2", "why": "host too noisy: a: others", "unjudged": "noise" });
        assert_eq!(written(Some(noise.clone())), expected);
        let expected =
            json!({ "name": "t", "target": "<= 2", "why": "another size", "unjudged": "not_measured" });
        assert_eq!(written(Some(other.clone())), expected);
        assert_eq!(written(None), json!({ "name": "t", "target": "<= 2", "value": 1.0, "met": true }));
        for reason in [Some(noise), Some(other), None] {
            let target: Target = serde_json::from_value(written(reason.clone())).unwrap();
            assert_eq!(target.unjudged, reason);
        }
    }

    #[test]
    fn what_is_no_number_is_neither_met_nor_missed() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for target in [Target::at_most("t", Some(value), 2.0), Target::at_least("t", Some(value), 2.0)] {
                assert_eq!((target.value, target.met), (None, None), "{value}");
            }
        }
        assert_eq!(Target::at_most("t", Some(2.0), 2.0).met, Some(true));
        assert_eq!(Target::at_least("t", Some(2.0), 2.0).met, Some(true));
    }

    #[test]
    fn of_a_reason_that_was_written_without_its_kind_the_beginning_tells() {
        let noise = json!({ "why": "host too noisy: a: others" });
        assert_eq!(read(&noise), Some(Unjudged::Noise("a: others".into())));
        let other = json!({ "why": "there were 2 values" });
        assert_eq!(read(&other), Some(Unjudged::NotMeasured("there were 2 values".into())));
        assert_eq!(read(&json!({})), None);
        // If present, the kind decides.
        let said = json!({ "why": "host too noisy: a", "unjudged": "not_measured" });
        assert_eq!(read(&said), Some(Unjudged::NotMeasured("host too noisy: a".into())));
    }
}
