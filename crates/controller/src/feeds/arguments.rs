//! Arguments of the feeds in `/whisk.system/alarms`, with the error texts that OpenWhisk's users know.

use std::time::Duration;

use flint_model::{Date, FeedPayload, FeedSource, ThenDelete, Timestamp};
use jiff::{civil, fmt::rfc2822, tz::TimeZone};
use serde_json::{Map, Value, json};

use super::{
    config::FeedsConfig,
    schedule::{Schedule, plus},
};

/// Delay of an interval without a start date, so that rules can be attached first.
const UNTIL_RULES_ARE_THERE: Duration = Duration::from_secs(30);

/// Maximum interval: ten years.
const MOST_MINUTES: u64 = 5_256_000;

/// Number of a cron pattern's instants that are checked for their distance.
const LOOKED_AT: usize = 100;

/// How long after its first instant they are.
const LOOKED_AHEAD: Duration = Duration::from_secs(366 * 24 * 3600);

/// The feed that was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    Cron,
    Interval,
    Once,
}

/// The arguments of a call; empty values count as absent.
pub(crate) struct Arguments<'a> {
    pub(crate) given: &'a Map<String, Value>,
    pub(crate) now: Timestamp,
    pub(crate) config: &'a FeedsConfig,
}

impl<'a> Arguments<'a> {
    /// An argument that is present and not falsy in JavaScript's sense.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.given.get(name).filter(|value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::String(text) => !text.is_empty(),
            Value::Number(number) => number.as_f64() != Some(0.0),
            _ => true,
        })
    }

    /// The schedule of a new feed.
    pub(crate) fn source(&self, alarm: Alarm) -> Result<FeedSource, String> {
        let source = match alarm {
            Alarm::Cron => {
                let cron = self.get("cron").ok_or("alarms trigger feed is missing the cron parameter")?;
                let (start, stop) = (self.date("startDate")?, self.date("stopDate")?);
                FeedSource::Alarm { cron: self.cron(cron)?, timezone: self.timezone()?, start, stop }
            }
            Alarm::Interval => {
                let minutes =
                    self.get("minutes").ok_or("interval trigger feed is missing the minutes parameter")?;
                let start = self.date("startDate")?;
                let start = start.unwrap_or(Date { at: plus(self.now, UNTIL_RULES_ARE_THERE), text: None });
                FeedSource::Interval { minutes: self.minutes(minutes)?, start, stop: self.date("stopDate")? }
            }
            Alarm::Once => {
                let missing = "alarms once trigger feed is missing the date parameter";
                let date = self.date("date")?.ok_or(missing)?;
                FeedSource::Once { date, then_delete: self.then_delete()?.unwrap_or_default() }
            }
        };
        self.checked(source)
    }

    /// The changed schedule of an existing feed; `None` if it stays.
    pub(crate) fn changed(&self, old: &FeedSource) -> Result<Option<FeedSource>, String> {
        let new = match old.clone() {
            FeedSource::Alarm { cron, timezone, start, stop } => FeedSource::Alarm {
                cron: self.get("cron").map_or(Ok(cron), |given| self.cron(given))?,
                timezone: self.timezone()?.or(timezone),
                start: self.date("startDate")?.or(start),
                stop: self.date("stopDate")?.or(stop),
            },
            FeedSource::Interval { minutes, start, stop } => FeedSource::Interval {
                minutes: self.get("minutes").map_or(Ok(minutes), |given| self.minutes(given))?,
                start: self.date("startDate")?.unwrap_or(start),
                stop: self.date("stopDate")?.or(stop),
            },
            FeedSource::Once { date, then_delete } => FeedSource::Once {
                date: self.date("date")?.unwrap_or(date),
                then_delete: self.then_delete()?.unwrap_or(then_delete),
            },
            FeedSource::Nats(_) => return Ok(None),
        };
        if new == *old {
            return Ok(None);
        }
        self.checked(new).map(Some)
    }

    /// The payload of events; `None` if not given.
    pub(crate) fn payload(&self) -> Result<Option<FeedPayload>, String> {
        match self.get("trigger_payload") {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object.clone().into())),
            Some(Value::String(text)) => {
                Ok(Some(Map::from_iter([("payload".to_owned(), json!(text))]).into()))
            }
            Some(_) => Err("the trigger_payload parameter must be an object or a string".to_owned()),
        }
    }

    /// The maximum number of firings.
    pub(crate) fn max_triggers(&self) -> Result<Option<u64>, String> {
        let Some(given) = self.get("maxTriggers") else { return Ok(None) };
        match whole_number(given) {
            Some(-1) => Ok(None),
            Some(most) if most > 0 => Ok(Some(most as u64)),
            _ => {
                Err("the maxTriggers parameter must be an integer greater than zero, or -1 for no end"
                    .to_owned())
            }
        }
    }

    /// Refuses schedules that are invalid or never fire.
    fn checked(&self, source: FeedSource) -> Result<FeedSource, String> {
        let (start, stop) = limits(&source);
        if let (Some(start), Some(stop)) = (start, stop)
            && stop.at <= start.at
        {
            let (stop, start) = (shown(&stop.written()), shown(&start.written()));
            return Err(format!(
                "stopDate parameter '{stop}' must be greater than the startDate parameter '{start}'"
            ));
        }
        check_one_end(&source, self.max_triggers()?)?;
        let Some(schedule) = Schedule::of(&source)? else { return Ok(source) };
        let Some(first) = schedule.next(self.now) else {
            return Err(match (&source, stop) {
                (_, Some(_)) => {
                    "the first scheduled trigger fire is not until after the stop date".to_owned()
                }
                (FeedSource::Alarm { cron, .. }, None) => {
                    format!("cron pattern '{cron}' is not valid: there is no such date")
                }
                _ => "the date has passed: give a later one".to_owned(),
            });
        };
        self.check_distance(&source, &schedule, first)?;
        Ok(source)
    }

    /// Whether its instants keep the configured minimum distance.
    fn check_distance(
        &self,
        source: &FeedSource,
        schedule: &Schedule,
        first: Timestamp,
    ) -> Result<(), String> {
        let apart = self.config.min_interval;
        let until = plus(first, LOOKED_AHEAD);
        let instants = std::iter::successors(Some(first), |last| schedule.next(*last));
        let mut instants = instants.take_while(|next| *next < until).take(LOOKED_AT);
        let mut last = instants.next();
        for next in instants {
            if last.is_some_and(|last| next < plus(last, apart)) {
                let seconds = apart.as_secs_f64();
                return Err(match source {
                    FeedSource::Alarm { .. } if seconds == 60.0 => {
                        "cron pattern is limited to 5 fields with 1 minute as the finest granularity"
                            .to_owned()
                    }
                    _ => {
                        format!("it would fire more often than this server allows: at most every {seconds} s")
                    }
                });
            }
            last = Some(next);
        }
        Ok(())
    }

    fn cron(&self, given: &Value) -> Result<String, String> {
        let text = given.as_str().map(str::trim);
        text.map(str::to_owned).ok_or_else(|| format!("cron pattern '{}' is not valid", shown(given)))
    }

    fn timezone(&self) -> Result<Option<String>, String> {
        match self.get("timezone") {
            None => Ok(None),
            Some(Value::String(name)) => Ok(Some(name.clone())),
            Some(other) => Err(format!("timezone '{}' is not valid", shown(other))),
        }
    }

    fn minutes(&self, given: &Value) -> Result<u32, String> {
        match whole_number(given) {
            None => Err("the minutes parameter must be an integer".to_owned()),
            Some(minutes) if minutes <= 0 => {
                Err("the minutes parameter must be an integer greater than zero".to_owned())
            }
            Some(minutes) => {
                u32::try_from(minutes).ok().filter(|minutes| u64::from(*minutes) <= MOST_MINUTES).ok_or_else(
                    || format!("the minutes parameter must not be greater than {MOST_MINUTES}, ten years"),
                )
            }
        }
    }

    fn then_delete(&self) -> Result<Option<ThenDelete>, String> {
        let Some(given) = self.given.get("deleteAfterFire").filter(|given| !given.is_null()) else {
            return Ok(None);
        };
        match shown(given).trim().to_ascii_lowercase().as_str() {
            "" => Ok(None),
            "false" => Ok(Some(ThenDelete::Nothing)),
            "true" => Ok(Some(ThenDelete::Trigger)),
            "rules" => Ok(Some(ThenDelete::Rules)),
            _ => Err("deleteAfterFire parameter must be one of [false, true, rules].".to_owned()),
        }
    }

    /// A date in the future.
    fn date(&self, name: &str) -> Result<Option<Date>, String> {
        let Some(given) = self.get(name) else { return Ok(None) };
        let past = || format!("{name} parameter '{}' must be in the future", shown(given));
        let date = match given {
            Value::Number(_) => match whole_number(given) {
                Some(millis) if millis < 0 => return Err(past()),
                Some(millis) => as_date(jiff::Timestamp::from_millisecond(millis).ok(), None),
                None => None,
            },
            Value::String(text) => as_date(instant_of(text), Some(text)),
            _ => None,
        };
        match date {
            None => Err(format!("{name} parameter '{}' is not a valid Date", shown(given))),
            Some(date) if date.at <= self.now => Err(past()),
            date => Ok(date),
        }
    }
}

/// An alarm ends by a date or after so many firings, not by both.
pub(super) fn check_one_end(source: &FeedSource, left: Option<u64>) -> Result<(), String> {
    match (limits(source), left) {
        ((_, Some(_)), Some(_)) => {
            Err("maxTriggers is not allowed when the stopDate parameter is specified".to_owned())
        }
        _ => Ok(()),
    }
}

/// The start and the stop of an alarm.
fn limits(source: &FeedSource) -> (Option<&Date>, Option<&Date>) {
    match source {
        FeedSource::Alarm { start, stop, .. } => (start.as_ref(), stop.as_ref()),
        FeedSource::Interval { start, stop, .. } => (Some(start), stop.as_ref()),
        FeedSource::Once { .. } | FeedSource::Nats(_) => (None, None),
    }
}

/// An instant in ISO 8601, in UTC if it has no offset, or in the format of mail.
fn instant_of(text: &str) -> Option<jiff::Timestamp> {
    let text = text.trim();
    let utc = |local: civil::DateTime| local.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    None.or_else(|| text.parse::<jiff::Timestamp>().ok())
        .or_else(|| utc(text.parse::<civil::DateTime>().ok()?))
        .or_else(|| rfc2822::parse(text).ok().map(|zoned| zoned.timestamp()))
}

fn as_date(instant: Option<jiff::Timestamp>, text: Option<&String>) -> Option<Date> {
    // One before 1970 only has to be in the past.
    let millis = u64::try_from(instant?.as_millisecond()).unwrap_or(0);
    Some(Date { at: Timestamp::from_millis(millis), text: text.cloned() })
}

/// An integer, also as text.
fn whole_number(given: &Value) -> Option<i64> {
    match given {
        Value::Number(number) => number.as_i64().or_else(|| {
            let float = number.as_f64()?;
            (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64)
        }),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// A value as text, truncated.
fn shown(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_000_000_000; // 2026-11-18T11:06:40Z

    fn with<T>(given: Value, use_them: impl FnOnce(Arguments<'_>) -> T) -> T {
        let Value::Object(given) = given else { panic!("arguments are an object") };
        let config = FeedsConfig::default();
        use_them(Arguments { given: &given, now: Timestamp::from_millis(NOW), config: &config })
    }

    fn refused(alarm: Alarm, given: Value) -> String {
        with(given, |arguments| arguments.source(alarm).unwrap_err())
    }

    #[test]
    fn feeds_are_told_by_their_arguments() {
        let cron = json!({"cron": " */5 * * * * ", "timezone": "Europe/Rome", "startDate": NOW + 1, "stopDate": "2027-01-01"});
        let source = with(cron, |arguments| arguments.source(Alarm::Cron)).unwrap();
        let stop =
            Date { at: Timestamp::from_millis(1_798_761_600_000), text: Some("2027-01-01".to_owned()) };
        assert_eq!(
            source,
            FeedSource::Alarm {
                cron: "*/5 * * * *".to_owned(),
                timezone: Some("Europe/Rome".to_owned()),
                start: Some(Date { at: Timestamp::from_millis(NOW + 1), text: None }),
                stop: Some(stop),
            }
        );
        for minutes in [json!(7), json!("7"), json!(7.0)] {
            let source =
                with(json!({"minutes": minutes}), |arguments| arguments.source(Alarm::Interval)).unwrap();
            let start = Date { at: Timestamp::from_millis(NOW + 30_000), text: None };
            assert_eq!(source, FeedSource::Interval { minutes: 7, start, stop: None });
        }
        for (given, then_delete) in [
            (json!(null), ThenDelete::Nothing),
            (json!(false), ThenDelete::Nothing),
            (json!(true), ThenDelete::Trigger),
            (json!(" TRUE"), ThenDelete::Trigger),
            (json!("rules"), ThenDelete::Rules),
        ] {
            let given = json!({"date": NOW + 5, "deleteAfterFire": given});
            let source = with(given, |arguments| arguments.source(Alarm::Once)).unwrap();
            let date = Date { at: Timestamp::from_millis(NOW + 5), text: None };
            assert_eq!(source, FeedSource::Once { date, then_delete });
        }
    }

    #[test]
    fn dates_are_numbers_or_text() {
        let millis = |text: &str| {
            with(json!({ "date": text }), |arguments| match arguments.source(Alarm::Once) {
                Ok(FeedSource::Once { date, .. }) => date.at.as_millis(),
                other => panic!("{text}: {other:?}"),
            })
        };
        for text in [
            "2026-12-25T12:30:00.000Z",
            "2026-12-25T12:30Z",
            "2026-12-25T13:30:00+01:00",
            "2026-12-25T12:30:00",
            "2026-12-25 12:30",
            "Fri, 25 Dec 2026 12:30:00 GMT",
        ] {
            assert_eq!(millis(text), 1_798_201_800_000, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_words_that_users_know() {
        let past = NOW - 1;
        for (alarm, given, text) in [
            (Alarm::Cron, json!({}), "alarms trigger feed is missing the cron parameter".to_owned()),
            (Alarm::Cron, json!({"cron": 17}), "cron pattern '17' is not valid".to_owned()),
            (
                Alarm::Interval,
                json!({"minutes": 0}),
                "interval trigger feed is missing the minutes parameter".to_owned(),
            ),
            (
                Alarm::Interval,
                json!({"minutes": "five"}),
                "the minutes parameter must be an integer".to_owned(),
            ),
            (Alarm::Interval, json!({"minutes": 1.5}), "the minutes parameter must be an integer".to_owned()),
            (
                Alarm::Interval,
                json!({"minutes": -1}),
                "the minutes parameter must be an integer greater than zero".to_owned(),
            ),
            (
                Alarm::Once,
                json!({"date": ""}),
                "alarms once trigger feed is missing the date parameter".to_owned(),
            ),
            (
                Alarm::Once,
                json!({"date": "tomorrow"}),
                "date parameter 'tomorrow' is not a valid Date".to_owned(),
            ),
            (Alarm::Once, json!({"date": [1]}), "date parameter '[1]' is not a valid Date".to_owned()),
            (Alarm::Once, json!({"date": past}), format!("date parameter '{past}' must be in the future")),
            (Alarm::Once, json!({"date": -5}), "date parameter '-5' must be in the future".to_owned()),
            (
                Alarm::Once,
                json!({"date": NOW + 9, "deleteAfterFire": "soon"}),
                "deleteAfterFire parameter must be one of [false, true, rules].".to_owned(),
            ),
            (
                Alarm::Cron,
                json!({"cron": "* * * * *", "startDate": NOW + 5, "stopDate": NOW + 5}),
                format!(
                    "stopDate parameter '{0}' must be greater than the startDate parameter '{0}'",
                    NOW + 5
                ),
            ),
            (
                Alarm::Cron,
                json!({"cron": "0 0 1 1 *", "stopDate": NOW + 5}),
                "the first scheduled trigger fire is not until after the stop date".to_owned(),
            ),
            (
                Alarm::Cron,
                json!({"cron": "0 0 30 2 *"}),
                "cron pattern '0 0 30 2 *' is not valid: there is no such date".to_owned(),
            ),
            (
                Alarm::Cron,
                json!({"cron": "* * * * *", "stopDate": NOW + 999_999, "maxTriggers": 3}),
                "maxTriggers is not allowed when the stopDate parameter is specified".to_owned(),
            ),
        ] {
            assert_eq!(refused(alarm, given), text);
        }
        for bad in [json!(0.5), json!(-2), json!("x"), json!([])] {
            let error = with(json!({"maxTriggers": bad}), |arguments| arguments.max_triggers()).unwrap_err();
            assert!(error.contains("maxTriggers"), "{error}");
        }
        assert!(with(json!({"trigger_payload": [1]}), |arguments| arguments.payload()).is_err());
    }

    #[test]
    fn what_fires_too_often_is_refused() {
        let given = json!({"cron": "0,59 0,30,31 * * * *"}).as_object().cloned().unwrap();
        let of = |seconds| {
            let min_interval = Duration::from_secs(seconds);
            let config = FeedsConfig { min_interval, ..FeedsConfig::default() };
            let now = Timestamp::from_millis(NOW);
            Arguments { given: &given, now, config: &config }.source(Alarm::Cron)
        };
        assert!(of(1).is_ok());
        assert_eq!(of(2).unwrap_err(), "it would fire more often than this server allows: at most every 2 s");
        let minutes = "cron pattern is limited to 5 fields with 1 minute as the finest granularity";
        assert_eq!(of(60).unwrap_err(), minutes);
    }

    #[test]
    fn only_what_is_given_changes() {
        let source =
            with(json!({"cron": "* * * * *", "timezone": "Europe/Rome"}), |given| given.source(Alarm::Cron))
                .unwrap();
        assert_eq!(with(json!({"minutes": 5}), |given| given.changed(&source)), Ok(None));
        let changed = with(json!({"cron": "*/2 * * * *"}), |given| given.changed(&source)).unwrap().unwrap();
        let FeedSource::Alarm { cron, timezone, .. } = changed else { panic!("it is another feed") };
        assert_eq!((cron.as_str(), timezone.as_deref()), ("*/2 * * * *", Some("Europe/Rome")));
    }
}
