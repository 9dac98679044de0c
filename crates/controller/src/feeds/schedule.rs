//! Computes the instants of an alarm. Pure arithmetic: the caller supplies the time.

use std::time::Duration;

use croner::{
    Cron, Weekday,
    parser::{CronParser, Seconds, Year},
};
use flint_model::{Date, FeedSource, Timestamp};
use jiff::{Zoned, civil, tz::TimeZone};

/// Maximum length of a cron pattern and of a time zone's name.
const LONGEST: usize = 256;

/// A series of instants, possibly with a first and a last one.
#[derive(Debug)]
pub(crate) struct Schedule {
    rhythm: Rhythm,
    start: Option<Timestamp>,
    stop: Option<Timestamp>,
}

#[derive(Debug)]
enum Rhythm {
    /// Instants that match the pattern in this time zone.
    Cron(Box<Cron>, TimeZone),
    /// One per period, in ms.
    Every {
        period: u64,
        first: u64,
    },
    Once(Timestamp),
}

impl Schedule {
    /// The schedule of an alarm; `None` for other feeds; the error says what is wrong with it.
    pub(crate) fn of(source: &FeedSource) -> Result<Option<Self>, String> {
        let at = |date: &Option<Date>| date.as_ref().map(|date| date.at);
        Ok(Some(match source {
            FeedSource::Nats(_) => return Ok(None),
            FeedSource::Alarm { cron, timezone, start, stop } => {
                let zone = match timezone {
                    Some(name) => time_zone(name)?,
                    None => TimeZone::UTC,
                };
                Self {
                    rhythm: Rhythm::Cron(Box::new(pattern(cron)?), zone),
                    start: at(start),
                    stop: at(stop),
                }
            }
            FeedSource::Interval { minutes, start, stop } => {
                let (period, first) = (u64::from(*minutes).max(1) * 60_000, start.at.as_millis());
                Self { rhythm: Rhythm::Every { period, first }, start: Some(start.at), stop: at(stop) }
            }
            FeedSource::Once { date, .. } => Self { rhythm: Rhythm::Once(date.at), start: None, stop: None },
        }))
    }

    /// The first instant after `after`.
    pub(crate) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = match self.start {
            Some(start) => after.max(minus(start, Duration::from_millis(1))),
            None => after,
        };
        let next = match &self.rhythm {
            Rhythm::Cron(cron, zone) => {
                instant(&cron.find_next_occurrence(&in_zone(after, zone)?, false).ok()?)
            }
            Rhythm::Every { period, first } => Some(Timestamp::from_millis(match after.as_millis() {
                early if early < *first => *first,
                after => first.checked_add(((after - first) / period + 1).checked_mul(*period)?)?,
            })),
            Rhythm::Once(at) => Some(*at),
        };
        next.filter(|next| *next > after && self.stop.is_none_or(|stop| *next <= stop))
    }

    /// The last instant not after `until`.
    pub(crate) fn latest(&self, until: Timestamp) -> Option<Timestamp> {
        let until = self.stop.map_or(until, |stop| until.min(stop));
        let latest = match &self.rhythm {
            Rhythm::Cron(cron, zone) => {
                instant(&cron.find_previous_occurrence(&in_zone(until, zone)?, true).ok()?)
            }
            Rhythm::Every { period, first } => {
                let since = until.as_millis().checked_sub(*first)?;
                Some(Timestamp::from_millis(first + since / period * period))
            }
            Rhythm::Once(at) => Some(*at),
        };
        latest.filter(|latest| *latest <= until && self.start.is_none_or(|start| *latest >= start))
    }

    /// The first instant that is at least `apart` after the one used last.
    pub(crate) fn next_spaced(&self, used: Timestamp, apart: Duration) -> Option<Timestamp> {
        self.next(used.max(minus(plus(used, apart), Duration::from_millis(1))))
    }
}

/// Parses a cron pattern.
fn pattern(text: &str) -> Result<Cron, String> {
    let parser = CronParser::builder()
        .seconds(Seconds::Optional)
        .year(Year::Disallowed)
        .sloppy_ranges(true) // OpenWhisk's users may have written 0/10 for */10
        .build();
    let wrong = |why: &str| format!("cron pattern '{text}' is not valid: {why}");
    if text.len() > LONGEST {
        let shown: String = text.chars().take(40).collect();
        return Err(format!("cron pattern '{shown}…' is not valid: it is longer than {LONGEST} characters"));
    }
    let cron = parser.parse(text).map_err(|error| wrong(&error.to_string()))?;
    // A search for an instant would go through three thousand years before it ends.
    if has_day(&cron) { Ok(cron) } else { Err(wrong("there is no such date")) }
}

/// Whether any day matches. In the 28 years from 2001 each day of a year is on each day of the week, in common
/// years and in leap years.
fn has_day(cron: &Cron) -> bool {
    let is_month = |month: i8| cron.pattern.month_match(month as u32).unwrap_or(false);
    let months = (2001..=2028).flat_map(|year| (1..=12).map(move |month| civil::date(year, month, 1)));
    months.filter(|first| is_month(first.month())).any(|first| {
        let (year, month) = (i32::from(first.year()), first.month() as u32);
        let before = first.weekday().to_sunday_zero_offset() as u32;
        (1..=first.days_in_month() as u32).any(|day| {
            let weekday = Weekday::from_days_from_sunday(before + day - 1);
            cron.pattern.day_match(year, month, day, weekday).unwrap_or(false)
        })
    })
}

/// A time zone by its IANA name. The zone data is part of the binary, and thus the same on every host.
fn time_zone(name: &str) -> Result<TimeZone, String> {
    let shown: String = name.chars().take(LONGEST).collect();
    TimeZone::get(name).map_err(|_| {
        format!(
            "timezone '{shown}' is not valid: write a name of the IANA database, for example 'Europe/Rome'"
        )
    })
}

fn in_zone(at: Timestamp, zone: &TimeZone) -> Option<Zoned> {
    let at = jiff::Timestamp::from_millisecond(i64::try_from(at.as_millis()).ok()?).ok()?;
    Some(at.to_zoned(zone.clone()))
}

fn instant(zoned: &Zoned) -> Option<Timestamp> {
    u64::try_from(zoned.timestamp().as_millisecond()).ok().map(Timestamp::from_millis)
}

/// Adds a duration.
pub(crate) fn plus(at: Timestamp, span: Duration) -> Timestamp {
    Timestamp::from_millis(at.as_millis().saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
}

/// Subtracts a duration.
pub(crate) fn minus(at: Timestamp, span: Duration) -> Timestamp {
    Timestamp::from_millis(at.as_millis().saturating_sub(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        let timestamp: jiff::Timestamp = text.parse().unwrap();
        Timestamp::from_millis(timestamp.as_millisecond() as u64)
    }

    fn shown(at: Option<Timestamp>) -> String {
        let shown =
            |at: Timestamp| jiff::Timestamp::from_millisecond(at.as_millis() as i64).unwrap().to_string();
        at.map_or("never".to_owned(), shown)
    }

    fn alarm(cron: &str, timezone: Option<&str>, start: Option<&str>, stop: Option<&str>) -> Schedule {
        let date = |text: Option<&str>| text.map(|text| Date { at: at(text), text: None });
        let (cron, timezone) = (cron.to_owned(), timezone.map(str::to_owned));
        Schedule::of(&FeedSource::Alarm { cron, timezone, start: date(start), stop: date(stop) })
            .unwrap()
            .unwrap()
    }

    #[test]
    fn a_pattern_has_five_fields_or_six_with_seconds() {
        let now = at("2026-11-22T06:48:31.5Z");
        for (cron, next, latest) in [
            ("* * * * *", "2026-11-22T06:49:00Z", "2026-11-22T06:48:00Z"),
            ("*/30 * * * * *", "2026-11-22T06:49:00Z", "2026-11-22T06:48:30Z"),
            ("31 48 6 * * *", "2026-11-23T06:48:31Z", "2026-11-22T06:48:31Z"),
            ("0 */2 * * *", "2026-11-22T08:00:00Z", "2026-11-22T06:00:00Z"),
            ("0/10 * * * *", "2026-11-22T06:50:00Z", "2026-11-22T06:40:00Z"),
            ("0 9 8 * *", "2026-12-08T09:00:00Z", "2026-11-08T09:00:00Z"),
            ("@hourly", "2026-11-22T07:00:00Z", "2026-11-22T06:00:00Z"),
            ("0 0 29 2 +MON", "2044-02-29T00:00:00Z", "2016-02-29T00:00:00Z"),
        ] {
            let schedule = alarm(cron, None, None, None);
            assert_eq!(
                (shown(schedule.next(now)), shown(schedule.latest(now))),
                (next.into(), latest.into()),
                "{cron}"
            );
        }
    }

    #[test]
    fn clocks_of_a_zone_that_are_put_forward_or_back_skip_and_repeat_nothing() {
        let early = alarm("30 2 * * *", Some("Europe/Berlin"), None, None);
        // 02:30 is left out on that day, and the firing comes when the clocks have been put forward.
        let first = early.next(at("2026-03-28T20:00:00Z"));
        assert_eq!(shown(first), "2026-03-29T01:00:00Z");
        assert_eq!(shown(early.next(first.unwrap())), "2026-03-30T00:30:00Z");
        // 02:30 comes twice on that day, and the firing once.
        let first = early.next(at("2026-10-24T20:00:00Z"));
        assert_eq!(shown(first), "2026-10-25T00:30:00Z");
        assert_eq!(shown(early.next(first.unwrap())), "2026-10-26T01:30:00Z");
    }

    #[test]
    fn nothing_comes_before_the_start_or_after_the_stop() {
        let (start, stop) = (Some("2026-01-01T00:10:00Z"), Some("2026-01-01T00:20:00Z"));
        let schedule = alarm("*/5 * * * *", None, start, stop);
        assert_eq!(shown(schedule.next(at("2025-01-01T00:00:00Z"))), "2026-01-01T00:10:00Z");
        assert_eq!(shown(schedule.next(at("2026-01-01T00:15:00Z"))), "2026-01-01T00:20:00Z");
        assert_eq!(shown(schedule.next(at("2026-01-01T00:20:00Z"))), "never");
        assert_eq!(shown(schedule.latest(at("2026-01-01T00:09:59Z"))), "never");
        assert_eq!(shown(schedule.latest(at("2027-01-01T00:00:00Z"))), "2026-01-01T00:20:00Z");
    }

    #[test]
    fn an_interval_keeps_the_beat_of_its_start() {
        let start = Date { at: at("2026-01-01T00:00:30Z"), text: None };
        let stop = Some(Date { at: at("2026-01-01T00:09:00Z"), text: None });
        let schedule = Schedule::of(&FeedSource::Interval { minutes: 2, start, stop }).unwrap().unwrap();
        for (now, next, latest) in [
            ("2025-12-31T00:00:00Z", "2026-01-01T00:00:30Z", "never"),
            ("2026-01-01T00:00:30Z", "2026-01-01T00:02:30Z", "2026-01-01T00:00:30Z"),
            ("2026-01-01T00:05:00Z", "2026-01-01T00:06:30Z", "2026-01-01T00:04:30Z"),
            ("2026-01-01T00:08:30Z", "never", "2026-01-01T00:08:30Z"),
        ] {
            assert_eq!(
                (shown(schedule.next(at(now))), shown(schedule.latest(at(now)))),
                (next.into(), latest.into())
            );
        }
    }

    #[test]
    fn instants_that_are_too_close_are_left_out() {
        let every_second = alarm("* * * * * *", None, None, None);
        let used = at("2026-01-01T00:00:10Z");
        for (seconds, next) in [(0, "00:00:11"), (1, "00:00:11"), (7, "00:00:17"), (60, "00:01:10")] {
            let next_one = every_second.next_spaced(used, Duration::from_secs(seconds));
            assert_eq!(shown(next_one), format!("2026-01-01T{next}Z"), "{seconds}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let of = |cron: &str, timezone: Option<&str>| {
            let (cron, timezone) = (cron.to_owned(), timezone.map(str::to_owned));
            Schedule::of(&FeedSource::Alarm { cron, timezone, start: None, stop: None }).unwrap_err()
        };
        for bad in
            ["", "* * * *", "60 * * * *", "* * * * * * *", "1700000000000", "a b c d e", "\u{1F980} * * * *"]
        {
            let error = of(bad, None);
            assert!(error.starts_with(&format!("cron pattern '{bad}' is not valid: ")), "{error}");
        }
        for never in ["0 0 30 2 *", "0 0 8-31 * +1#1", "0 0 1-7 2 +MON#2", "0 0 31 2,4,6,9,11 +SUN"] {
            let error = of(never, None);
            assert_eq!(error, format!("cron pattern '{never}' is not valid: there is no such date"));
        }
        assert!(of(&"1,".repeat(1000), None).contains("longer than 256"));
        let error = of("* * * * *", Some("Mars/Olympus"));
        assert!(error.starts_with("timezone 'Mars/Olympus' is not valid"), "{error}");
    }

    fn schedules() -> impl Strategy<Value = Schedule> {
        let field = |most: u32| {
            prop_oneof![
                Just("*".to_owned()),
                (1..=most).prop_map(|step| format!("*/{step}")),
                (0..most).prop_map(|one| one.to_string()),
                (0..most, 0..most).prop_map(|(one, two)| format!("{one},{two}")),
            ]
        };
        let zone = prop_oneof![Just(None), Just(Some("America/New_York")), Just(Some("Australia/Lord_Howe"))];
        prop_oneof![
            (field(59), field(59), field(23), zone).prop_map(|(second, minute, hour, zone)| {
                alarm(&format!("{second} {minute} {hour} * * *"), zone, None, None)
            }),
            (1_u32..5000, 1_700_000_000_000_u64..1_800_000_000_000).prop_map(|(minutes, start)| {
                let start = Date { at: Timestamp::from_millis(start), text: None };
                Schedule::of(&FeedSource::Interval { minutes, start, stop: None }).unwrap().unwrap()
            }),
        ]
    }

    proptest! {
        /// There is no instant between one and the next, in both directions.
        #[test]
        fn next_and_latest_agree(schedule in schedules(), now in 1_700_000_000_000_u64..1_800_000_000_000) {
            let now = Timestamp::from_millis(now);
            let next = schedule.next(now).unwrap();
            prop_assert!(next > now);
            prop_assert_eq!(schedule.latest(next), Some(next));
            let before = schedule.latest(minus(next, Duration::from_millis(1)));
            prop_assert!(before.is_none_or(|before| before <= now), "{:?} is between {:?} and {:?}", before, now, next);
            if let Some(latest) = schedule.latest(now) {
                prop_assert!(latest <= now);
                prop_assert_eq!(schedule.next(latest), Some(next));
            }
        }
    }
}
