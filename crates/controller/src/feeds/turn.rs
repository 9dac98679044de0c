//! Decides what an alarm does when it is evaluated. Pure rules:
//!
//! 1. Instants fire in order, each once: `next` only ever goes forward.
//! 2. An instant up to [`ON_TIME`] old fires. If it is older, the server was away: of all instants that have
//!    passed since, only the latest fires, if the operator's policy and window allow it.
//! 3. When the clock is set back, a feed waits until the clock has caught up. If it is set back by more than
//!    [`FAR`], the new time counts.

use std::time::Duration;

use flint_model::{Feed, FeedSource, FeedState, Timestamp};

use super::{
    config::{FeedsConfig, Missed},
    schedule::{Schedule, minus, plus},
};

/// A later firing counts as missed.
pub(crate) const ON_TIME: Duration = Duration::from_secs(10);

/// If the clock is set back by more, the earlier time is taken to have been wrong.
pub(crate) const FAR: Duration = Duration::from_secs(24 * 3600);

/// The decision about a feed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Turn {
    /// Nothing.
    Wait,
    /// Fire for this instant, and store this feed.
    Fire(Timestamp, Feed),
    /// The missed instants are too old: store this feed without firing.
    Skip(Feed),
}

/// Evaluates an alarm at `now`.
pub(crate) fn turn(feed: &Feed, schedule: &Schedule, now: Timestamp, config: &FeedsConfig) -> Turn {
    let Some(next) = feed.next.filter(|next| *next <= now && feed.state == FeedState::Active) else {
        return Turn::Wait;
    };
    if now <= plus(next, ON_TIME) {
        return Turn::Fire(next, fired(feed, schedule, next, config));
    }
    let latest = schedule.latest(now).unwrap_or(next).max(next);
    match config.missed {
        Missed::Once if latest >= minus(now, config.missed_window.max(ON_TIME)) => {
            Turn::Fire(latest, fired(feed, schedule, latest, config))
        }
        _ => Turn::Skip(ended_unless_next(
            Feed { next: schedule.next(now), retry_at: None, ..feed.clone() },
            now,
        )),
    }
}

/// The feed after firing for `instant`.
fn fired(feed: &Feed, schedule: &Schedule, instant: Timestamp, config: &FeedsConfig) -> Feed {
    let left = feed.left.map(|left| left.saturating_sub(1));
    let next = schedule.next_spaced(instant, config.min_interval);
    let after =
        Feed { next, retry_at: None, last: Some(instant), fired: feed.fired + 1, left, ..feed.clone() };
    match (&feed.source, left) {
        (FeedSource::Once { then_delete, .. }, _) if *then_delete != Default::default() => {
            Feed { state: FeedState::Leaving, since: instant, next: None, ..after }
        }
        (_, Some(0)) => spent(after, instant),
        _ => ended_unless_next(after, instant),
    }
}

/// The feed after its last permitted firing.
pub(crate) fn spent(feed: Feed, at: Timestamp) -> Feed {
    let why = "Automatically disabled after reaching max triggers".to_owned();
    Feed { state: FeedState::Ended(why), since: at, next: None, ..feed }
}

/// The feed, ended if it has no next instant.
fn ended_unless_next(feed: Feed, now: Timestamp) -> Feed {
    if feed.next.is_some() {
        return feed;
    }
    let why = match &feed.source {
        FeedSource::Alarm { .. } => "Automatically disabled after firing last scheduled cron trigger",
        FeedSource::Interval { .. } => "Automatically disabled after firing last scheduled interval trigger",
        FeedSource::Once { .. } if feed.fired == 0 => "Automatically disabled after its date was missed",
        FeedSource::Once { .. } => "Automatically disabled after firing once",
        FeedSource::Nats(_) => "Automatically disabled",
    };
    Feed { state: FeedState::Ended(why.to_owned()), since: now, ..feed }
}

/// The feed after the clock was set back, if that changes it.
pub(crate) fn put_back(feed: &Feed, schedule: &Schedule, now: Timestamp) -> Option<Feed> {
    let mut changed = feed.clone();
    // A retry is never that far ahead.
    changed.retry_at = feed.retry_at.filter(|retry| *retry <= plus(now, ON_TIME * 60));
    let was_wrong = feed.last.is_none_or(|last| last > plus(now, FAR));
    if feed.state == FeedState::Active && was_wrong {
        let next = schedule.next(now);
        if next.is_some() && next < feed.next {
            (changed.next, changed.last) = (next, None);
        }
    }
    (changed != *feed).then_some(changed)
}

#[cfg(test)]
mod tests {
    use flint_model::{Date, ThenDelete};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn date(seconds: u64) -> Date {
        Date { at: at(seconds), text: None }
    }

    fn feed(source: FeedSource, next: u64) -> (Feed, Schedule) {
        let schedule = Schedule::of(&source).unwrap().unwrap();
        let feed = serde_json::from_value(json!({
            "namespace": "guest", "trigger": "t", "subject": "guest", "revision": 1, "source": source,
            "state": "active", "since": 0, "next": next * 1000,
        }));
        (feed.unwrap(), schedule)
    }

    fn every_minute(next: u64) -> (Feed, Schedule) {
        feed(FeedSource::Interval { minutes: 1, start: date(60), stop: Some(date(600)) }, next)
    }

    /// The instant fired for and the one that comes next, in seconds.
    fn done(turn: Turn) -> (Option<u64>, Option<u64>, FeedState) {
        let seconds = |at: Timestamp| at.as_millis() / 1000;
        match turn {
            Turn::Wait => panic!("nothing is done"),
            Turn::Fire(instant, after) => (Some(seconds(instant)), after.next.map(seconds), after.state),
            Turn::Skip(after) => (None, after.next.map(seconds), after.state),
        }
    }

    const ACTIVE: FeedState = FeedState::Active;

    #[test]
    fn an_instant_is_fired_for_once_and_not_before() {
        let (minute, schedule) = every_minute(60);
        let config = FeedsConfig::default();
        assert_eq!(turn(&minute, &schedule, at(59), &config), Turn::Wait);
        assert_eq!(done(turn(&minute, &schedule, at(60), &config)), (Some(60), Some(120), ACTIVE));
        assert_eq!(done(turn(&minute, &schedule, at(70), &config)), (Some(60), Some(120), ACTIVE));
        for state in [FeedState::Paused, FeedState::Ended("x".to_owned())] {
            assert_eq!(turn(&Feed { state, ..minute.clone() }, &schedule, at(60), &config), Turn::Wait);
        }
    }

    #[test]
    fn of_what_was_missed_only_the_latest_is_fired_for_and_only_in_the_window() {
        let (minute, schedule) = every_minute(60);
        let window = |seconds, missed| FeedsConfig {
            missed_window: Duration::from_secs(seconds),
            missed,
            ..FeedsConfig::default()
        };
        let missed = |config| done(turn(&minute, &schedule, at(299), &config));
        assert_eq!(missed(window(3600, Missed::Once)), (Some(240), Some(300), ACTIVE));
        assert_eq!(missed(window(59, Missed::Once)), (Some(240), Some(300), ACTIVE));
        assert_eq!(missed(window(58, Missed::Once)), (None, Some(300), ACTIVE));
        assert_eq!(missed(window(3600, Missed::None)), (None, Some(300), ACTIVE));
    }

    #[test]
    fn an_end_says_why() {
        let config = FeedsConfig::default();
        let ended = |why: &str| FeedState::Ended(format!("Automatically disabled after {why}"));
        let (minute, schedule) = every_minute(600);
        let last = ended("firing last scheduled interval trigger");
        assert_eq!(done(turn(&minute, &schedule, at(600), &config)), (Some(600), None, last.clone()));
        assert_eq!(done(turn(&minute, &schedule, at(99_999), &config)), (None, None, last));
        let two_left = Feed { left: Some(2), ..every_minute(60).0 };
        let Turn::Fire(_, one_left) = turn(&two_left, &schedule, at(60), &config) else { panic!("it fires") };
        assert_eq!((one_left.left, one_left.fired, &one_left.state), (Some(1), 1, &ACTIVE));
        let over = done(turn(&one_left, &schedule, at(120), &config));
        assert_eq!(over, (Some(120), None, ended("reaching max triggers")));

        let once = |then_delete| feed(FeedSource::Once { date: date(60), then_delete }, 60);
        let (plain, schedule) = once(ThenDelete::Nothing);
        assert_eq!(done(turn(&plain, &schedule, at(61), &config)), (Some(60), None, ended("firing once")));
        let missed = done(turn(&plain, &schedule, at(60 + 3601), &config));
        assert_eq!(missed, (None, None, ended("its date was missed")));
        for then_delete in [ThenDelete::Trigger, ThenDelete::Rules] {
            let (leaving, schedule) = once(then_delete);
            let fires = done(turn(&leaving, &schedule, at(60), &config));
            assert_eq!(fires, (Some(60), None, FeedState::Leaving));
        }
    }

    #[test]
    fn a_clock_that_is_put_back_is_waited_for_unless_it_was_far_off() {
        let source = FeedSource::Interval { minutes: 1, start: date(60), stop: None };
        let (minute, schedule) = feed(source, 1_000_020);
        let fired_before = Feed { last: Some(at(999_960)), ..minute.clone() };
        let day = 24 * 3600;
        assert_eq!(put_back(&fired_before, &schedule, at(999_000)), None);
        assert_eq!(put_back(&fired_before, &schedule, at(999_960 - day)), None);
        let wrong = put_back(&fired_before, &schedule, at(999_959 - day)).unwrap();
        assert_eq!((wrong.next, wrong.last), (Some(at(913_560)), None));
        // An alarm that has never fired cannot fire twice.
        assert_eq!(put_back(&minute, &schedule, at(999_000)).unwrap().next, Some(at(999_060)));
        let tried_again = Feed { retry_at: Some(at(1_000_040)), ..fired_before };
        assert_eq!(put_back(&tried_again, &schedule, at(999_000)).unwrap().retry_at, None);
    }

    proptest! {
        /// However the clock is set: no instant fires twice, they fire in order, and each is one of the
        /// schedule's.
        #[test]
        fn no_instant_is_fired_for_twice(
            steps in prop::collection::vec(prop_oneof![
                3 => (0_i64..200).prop_map(|seconds| seconds * 1000 + 7),
                1 => -80_000_000_i64..0, // back, by less than a day
                1 => 0_i64..50_000_000,
            ], 1..60),
            missed in prop_oneof![Just(Missed::Once), Just(Missed::None)],
            apart in 0_u64..120,
        ) {
            let source = FeedSource::Alarm {
                cron: "*/20 * * * * *".to_owned(), timezone: None, start: None, stop: None,
            };
            let beginning = 1_750_000_000_000_u64;
            let (mut feed, schedule) = feed(source, beginning / 1000 + 20);
            let config = FeedsConfig {
                missed,
                min_interval: Duration::from_secs(apart),
                ..FeedsConfig::default()
            };
            let mut now = beginning as i64;
            let mut last: Option<Timestamp> = None;
            for step in steps {
                // Never so far back that the schedule begins again: see above.
                let far = last.map_or(beginning, |last| minus(last, FAR).as_millis());
                now = (now + step).max(far as i64);
                let time = Timestamp::from_millis(now as u64);
                if step < 0 && let Some(changed) = put_back(&feed, &schedule, time) {
                    feed = changed;
                }
                for _ in 0..3 {
                    match turn(&feed, &schedule, time, &config) {
                        Turn::Wait => break,
                        Turn::Skip(after) => feed = after,
                        Turn::Fire(instant, after) => {
                            prop_assert!(instant <= time);
                            prop_assert_eq!(schedule.latest(instant), Some(instant));
                            if let Some(last) = last {
                                prop_assert!(instant > last);
                                prop_assert!(instant.as_millis() - last.as_millis() >= apart * 1000);
                            }
                            last = Some(instant);
                            feed = after;
                        }
                    }
                }
                prop_assert!(feed.next > last, "it goes on");
            }
        }
    }
}
