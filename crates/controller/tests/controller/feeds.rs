//! Alarms: what fires, when, how often, and what becomes of it over restarts. The clock is the test's.

use std::time::Duration;

use flint_controller::{ControllerError, Missed};
use flint_model::{NamespaceLimits, RuleStatus};
use flint_store::ActivationQuery;
use serde_json::json;

use crate::support::{
    alarms::{MINUTE, NEW_YEAR, World, at},
    places_are_free,
};

#[tokio::test]
async fn an_interval_fires_once_for_each_instant() {
    let world = World::new().await;
    world.create("interval", "/_/t", json!({"minutes": 2, "trigger_payload": {"name": "Odin"}})).await;
    let mut expected = Vec::new();
    // It waits half a minute for rules when nobody has said when it starts.
    for (now, instant) in [(29_999, None), (30_000, Some(30_000)), (30_001, None), (150_000, Some(150_000))] {
        world.clock.set(NEW_YEAR + now);
        for _ in 0..2 {
            world.controller().fire_due().await.unwrap();
        }
        expected.extend(instant.map(|instant| NEW_YEAR + instant));
        assert_eq!(world.fired("t").await, expected.len() as u64, "after {now} ms");
        assert_eq!(world.instants("work", expected.len()).await, expected);
    }
    let arguments = &world.calls("work", 2).await[0];
    assert_eq!(
        (&arguments["name"], &arguments["__ow_headers"]["x-flint-feed"]),
        (&json!("Odin"), &json!("/whisk.system/alarms/interval"))
    );
    world.server.stop().await;
}

#[tokio::test]
async fn a_feed_whose_rules_call_nothing_fires_once_for_each_instant() {
    let world = World::new().await;
    world.create("alarm", "t", json!({"cron": "* * * * *"})).await;
    let guest = world.server.guest().await;
    world.controller().delete_action(&guest, &"guest/work".parse().unwrap()).await.unwrap();
    let firings = ActivationQuery { name: Some("t".to_owned()), ..ActivationQuery::default() };
    for minute in 1..=3 {
        world.clock.set(NEW_YEAR + minute * MINUTE);
        let fired = tokio::time::timeout(Duration::from_secs(60), world.fired("t")).await;
        assert_eq!(fired, Ok(minute), "it goes on to its next instant");
        let firings = world.controller().count_activations(&guest, &guest.namespace.name, &firings).await;
        assert_eq!(firings.unwrap() as u64, minute);
    }
    world.server.stop().await;
}

#[tokio::test]
async fn the_server_wakes_by_itself() {
    let world = World::new().await;
    // A feed that comes later than the one that is waited for, and one that comes earlier.
    world.create("once", "t", json!({"date": NEW_YEAR + 50 * MINUTE})).await;
    world.trigger("sooner").await;
    world.rule("rs", "sooner", "work").await;
    world.create("once", "sooner", json!({"date": NEW_YEAR + MINUTE})).await;
    world.clock.set(NEW_YEAR + MINUTE);
    assert_eq!(world.instants("work", 1).await, [NEW_YEAR + MINUTE]);
    world.clock.set(NEW_YEAR + 50 * MINUTE);
    assert_eq!(world.instants("work", 2).await, [NEW_YEAR + MINUTE, NEW_YEAR + 50 * MINUTE]);
    world.server.stop().await;
}

#[tokio::test]
async fn a_killed_server_fires_for_the_latest_of_what_was_missed() {
    let world = World::new().await;
    world.create("alarm", "t", json!({"cron": "* * * * *"})).await;
    world.clock.advance(MINUTE);
    assert_eq!(world.fired("t").await, 1);
    world.instants("work", 1).await;
    let world = world.killed_for(10 * MINUTE + 17_000).await;
    assert_eq!(world.fired("t").await, 2, "one for all ten");
    assert!(world.instants("work", 1).await.contains(&(NEW_YEAR + 11 * MINUTE)));
    // Killed and started again within the same minute, there is nothing to fire for.
    let world = world.killed_for(1000).await;
    assert_eq!(world.fired("t").await, 2);
    world.server.stop().await;
}

#[tokio::test]
async fn what_is_missed_too_long_ago_or_by_policy_is_not_fired_for() {
    for missed in [Missed::Once, Missed::None] {
        let world = World::with(|mut config| {
            config.feeds.missed = missed;
            config.feeds.missed_window = Duration::from_secs(30);
            config
        })
        .await;
        world.create("alarm", "t", json!({"cron": "0 * * * *"})).await;
        world.clock.set(NEW_YEAR + 61 * MINUTE);
        assert_eq!(world.fired("t").await, 0, "{missed:?}");
        assert_eq!(world.read("t").await["status"]["nextFire"], NEW_YEAR + 120 * MINUTE);
        world.clock.set(NEW_YEAR + 120 * MINUTE + 29_000);
        assert_eq!(world.fired("t").await, u64::from(missed == Missed::Once), "{missed:?}");
        world.server.stop().await;
    }
}

#[tokio::test]
async fn a_clock_that_is_put_back_fires_for_nothing_twice() {
    let world = World::new().await;
    world.create("alarm", "t", json!({"cron": "* * * * *"})).await;
    world.clock.set(NEW_YEAR + 5 * MINUTE);
    world.controller().fire_due().await.unwrap();
    let fired = world.fired("t").await;
    for minute in 0..=5 {
        world.clock.set(NEW_YEAR + minute * MINUTE);
        assert_eq!(world.fired("t").await, fired);
    }
    world.clock.set(NEW_YEAR + 6 * MINUTE);
    assert_eq!(world.fired("t").await, fired + 1);
    world.server.stop().await;
}

#[tokio::test]
async fn a_feed_that_fires_once_takes_its_trigger_along_if_it_is_to() {
    let world = World::new().await;
    let guest = world.server.guest().await;
    for (name, then) in [("t", json!("rules")), ("alone", json!(true)), ("stays", json!(false))] {
        if name != "t" {
            world.trigger(name).await;
            world.rule(&format!("r-{name}"), name, "work").await;
        }
        world.create("once", name, json!({"date": NEW_YEAR + MINUTE, "deleteAfterFire": then})).await;
    }
    world.clock.set(NEW_YEAR + MINUTE);
    world.controller().fire_due().await.unwrap();
    assert_eq!(world.instants("work", 3).await, [NEW_YEAR + MINUTE; 3]);
    let gone = |found: Result<(), ControllerError>| matches!(found, Err(ControllerError::NotFound));
    for (name, stays) in [("t", false), ("alone", false), ("stays", true)] {
        let trigger = world.controller().trigger(&guest, &at(name)).await.map(drop);
        assert_eq!(gone(trigger), !stays, "{name}");
    }
    for (name, stays) in [("r", false), ("r-alone", true), ("r-stays", true)] {
        let rule = world.controller().rule(&guest, &at(name)).await.map(drop);
        assert_eq!(gone(rule), !stays, "{name}");
    }
    let over = world.read("stays").await;
    assert_eq!(
        over["status"]["reason"],
        json!({"kind": "AUTO", "message": "Automatically disabled after firing once"})
    );
    assert_eq!(over["status"]["active"], false);
    world.server.stop().await;
}

#[tokio::test]
async fn it_fires_as_often_as_it_may() {
    let world = World::new().await;
    world.create("alarm", "t", json!({"cron": "* * * * *", "maxTriggers": 2})).await;
    for minute in 1..5 {
        world.clock.set(NEW_YEAR + minute * MINUTE);
        assert_eq!(world.fired("t").await, minute.min(2));
    }
    let reason = &world.read("t").await["status"]["reason"]["message"];
    assert_eq!(reason, "Automatically disabled after reaching max triggers");
    world.ask("alarm", "t", "UPDATE", json!({"maxTriggers": 1})).await.unwrap();
    for minute in 5..8 {
        world.clock.set(NEW_YEAR + minute * MINUTE);
        assert_eq!(world.fired("t").await, 3);
    }
    // Another change does not make it fire without end; that has to be said.
    let spent = world.ask("alarm", "t", "UPDATE", json!({"trigger_payload": {"a": 1}})).await.unwrap_err();
    assert_eq!(spent, "it has fired as often as it may: give maxTriggers");
    world.clock.set(NEW_YEAR + 8 * MINUTE);
    assert_eq!(world.fired("t").await, 3);
    world.ask("alarm", "t", "UPDATE", json!({"maxTriggers": -1})).await.unwrap();
    for minute in 9..12 {
        world.clock.set(NEW_YEAR + minute * MINUTE);
        assert_eq!(world.fired("t").await, minute - 5);
    }
    assert!(world.read("t").await["status"].get("triggersLeft").is_none());
    world.server.stop().await;
}

#[tokio::test]
async fn a_firing_that_is_refused_is_tried_again() {
    let world = World::new().await;
    let guest = "guest".parse().unwrap();
    world.create("alarm", "t", json!({"cron": "30 0 0 * * *"})).await;
    let none = NamespaceLimits { fires_per_minute: Some(0), ..NamespaceLimits::default() };
    world.controller().set_limits(&guest, none).await.unwrap();
    let midnight = NEW_YEAR + 24 * 60 * MINUTE + 30_000;
    world.clock.set(midnight);
    assert_eq!(world.fired("t").await, 0);
    // It is not tried before the next minute, in which the throttle counts anew.
    world.controller().set_limits(&guest, NamespaceLimits::default()).await.unwrap();
    world.clock.set(midnight + 29_999);
    assert_eq!(world.fired("t").await, 0);
    world.clock.set(midnight + 30_000);
    assert_eq!(world.fired("t").await, 1);
    assert_eq!(world.instants("work", 1).await, [midnight]);

    // A blocked namespace does nothing, and catches up as after any other absence.
    world.controller().set_blocked(&guest, true).await.unwrap();
    world.clock.set(midnight + 24 * 60 * MINUTE);
    world.controller().fire_due().await.unwrap();
    world.controller().set_blocked(&guest, false).await.unwrap();
    world.clock.advance(MINUTE);
    assert_eq!(world.fired("t").await, 2);
    world.server.stop().await;
}

#[tokio::test]
async fn a_firing_whose_calls_are_refused_for_now_is_tried_again() {
    let world = World::new().await;
    let guest = "guest".parse().unwrap();
    world.create("alarm", "t", json!({"cron": "30 0 0 * * *"})).await;
    let unlimited = NamespaceLimits::default;
    let (mut midnight, mut expected) = (NEW_YEAR + 30_000, Vec::new());
    for none in [
        NamespaceLimits { invocations_per_minute: Some(0), ..unlimited() },
        NamespaceLimits { concurrent_invocations: Some(0), ..unlimited() },
    ] {
        midnight += 24 * 60 * MINUTE;
        let fired_before = expected.len() as u64;
        world.controller().set_limits(&guest, none).await.unwrap();
        world.clock.set(midnight);
        world.controller().fire_due().await.unwrap();
        world.controller().set_limits(&guest, unlimited()).await.unwrap();
        assert_eq!(world.fired("t").await, fired_before);
        world.clock.set(midnight + 30_000);
        assert_eq!(world.fired("t").await, fired_before + 1);
        expected.push(midnight);
        assert_eq!(world.instants("work", expected.len()).await, expected);
    }

    // More rules than there may ever be calls: it does not wait for what cannot come.
    world.rule("s", "t", "work").await;
    places_are_free(&world.server).await;
    let one = NamespaceLimits { concurrent_invocations: Some(1), ..unlimited() };
    world.controller().set_limits(&guest, one).await.unwrap();
    midnight += 24 * 60 * MINUTE;
    world.clock.set(midnight);
    world.controller().fire_due().await.unwrap();
    world.controller().set_limits(&guest, unlimited()).await.unwrap();
    assert_eq!(world.fired("t").await, 3);
    expected.push(midnight);
    assert_eq!(world.instants("work", 3).await, expected);
    world.server.stop().await;
}

#[tokio::test]
async fn what_waits_to_be_fired_for_still_is_when_something_else_changes() {
    let world = World::new().await;
    let guest = "guest".parse().unwrap();
    world.create("alarm", "t", json!({"cron": "30 0 0 * * *"})).await;
    let none = NamespaceLimits { fires_per_minute: Some(0), ..NamespaceLimits::default() };
    world.controller().set_limits(&guest, none).await.unwrap();
    let midnight = NEW_YEAR + 24 * 60 * MINUTE + 30_000;
    world.clock.set(midnight);
    assert_eq!(world.fired("t").await, 0);
    world.controller().set_limits(&guest, NamespaceLimits::default()).await.unwrap();
    world.ask("alarm", "t", "UPDATE", json!({"trigger_payload": {"a": 1}})).await.unwrap();
    world.clock.set(midnight + 30_000);
    assert_eq!(world.fired("t").await, 1);
    assert_eq!(world.instants("work", 1).await, [midnight]);
    assert_eq!(world.calls("work", 1).await[0]["a"], 1);
    world.server.stop().await;
}

#[tokio::test]
async fn it_goes_on_when_nothing_listens() {
    let world = World::new().await;
    let guest = world.server.guest().await;
    world.controller().set_rule_status(&guest, &at("r"), RuleStatus::Inactive).await.unwrap();
    world.create("alarm", "t", json!({"cron": "* * * * *"})).await;
    for minute in 1..3 {
        world.clock.set(NEW_YEAR + minute * MINUTE);
        assert_eq!(world.fired("t").await, minute);
    }
    world.controller().set_rule_status(&guest, &at("r"), RuleStatus::Active).await.unwrap();
    world.clock.set(NEW_YEAR + 3 * MINUTE);
    world.fired("t").await;
    assert_eq!(world.instants("work", 1).await, [NEW_YEAR + 3 * MINUTE]);
    world.server.stop().await;
}
