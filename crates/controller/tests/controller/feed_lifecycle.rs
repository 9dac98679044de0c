//! The feed of a trigger: made, read, changed, paused, deleted, and how its action is called. The clock is the test's.

use std::time::{Duration, Instant};

use flint_controller::{Mode, PutRule};
use flint_model::{ActivationId, Status};
use serde_json::json;

use crate::support::{
    alarms::{MINUTE, NEW_YEAR, World, at, call},
    eventually,
};

#[tokio::test]
async fn a_feed_is_read_changed_paused_and_deleted() {
    let world = World::new().await;
    let (start, stop) = ("2026-01-01T00:10:00Z", NEW_YEAR + 60 * MINUTE);
    let given = json!({"cron": "*/5 * * * *", "timezone": "Europe/Rome", "startDate": start, "stopDate": stop, "trigger_payload": "hi"});
    world.create("alarm", "/guest/t", given).await;
    let read = world.read("t").await;
    assert_eq!(
        read["config"],
        json!({
            "name": "t", "namespace": "guest", "payload": {"payload": "hi"}, "cron": "*/5 * * * *", "timezone": "Europe/Rome",
            "startDate": start, "stopDate": stop,
        })
    );
    assert_eq!(
        read["status"],
        json!({
            "active": true, "dateChanged": NEW_YEAR, "dateChangedISO": "2026-01-01T00:00:00Z", "fired": 0,
            "nextFire": NEW_YEAR + 10 * MINUTE, "nextFireISO": "2026-01-01T00:10:00Z",
        })
    );
    let again = world.ask("alarm", "t", "CREATE", json!({"cron": "* * * * *"})).await;
    assert_eq!(again.unwrap_err(), "the trigger /guest/t has a feed already: update or delete that");

    world
        .ask("alarm", "t", "UPDATE", json!({"cron": "*/7 * * * *", "trigger_payload": {"a": 1}}))
        .await
        .unwrap();
    let changed = world.read("t").await;
    assert_eq!(
        (&changed["config"]["cron"], &changed["config"]["payload"]),
        (&json!("*/7 * * * *"), &json!({"a": 1}))
    );
    assert_eq!(changed["status"]["nextFire"], NEW_YEAR + 14 * MINUTE);
    let nothing = world.ask("alarm", "t", "UPDATE", json!({"minutes": 3})).await;
    assert_eq!(nothing.unwrap_err(), "no updatable parameters were specified");

    world.ask("alarm", "t", "PAUSE", json!({})).await.unwrap();
    world.clock.set(NEW_YEAR + 15 * MINUTE);
    assert_eq!(world.fired("t").await, 0);
    assert_eq!(world.read("t").await["status"]["reason"], json!({"kind": "USER", "message": "Paused"}));
    world.ask("alarm", "t", "UNPAUSE", json!({})).await.unwrap();
    assert_eq!(world.fired("t").await, 0, "what has passed meanwhile was not missed");
    world.clock.set(NEW_YEAR + 21 * MINUTE);
    assert_eq!(world.fired("t").await, 1);

    for _ in 0..2 {
        assert!(world.ask("alarm", "t", "DELETE", json!({})).await.is_ok());
    }
    world.clock.set(NEW_YEAR + 28 * MINUTE);
    world.controller().fire_due().await.unwrap();
    for event in ["READ", "UPDATE", "PAUSE", "UNPAUSE"] {
        let error = world.ask("alarm", "t", event, json!({"cron": "* * * * *"})).await.unwrap_err();
        assert_eq!(error, "the trigger /guest/t has no feed of this server's", "{event}");
    }
    assert_eq!(world.instants("work", 1).await, [NEW_YEAR + 21 * MINUTE]);
    world.server.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_call_is_said() {
    let world = World::new().await;
    for (trigger, event, text) in [
        ("none", "CREATE", "there is no trigger /guest/none: create it first"),
        ("r", "CREATE", "there is no trigger /guest/r: create it first"),
        (
            "/other/t",
            "CREATE",
            "the trigger '/other/t' is not in the namespace of the key that was used, 'guest'",
        ),
        ("/_/", "READ", "'/_/' is no trigger's name: The name of the entity contains illegal characters."),
        ("t", "EXPLODE", "unsupported lifecycleEvent"),
    ] {
        let error = world.ask("alarm", trigger, event, json!({"cron": "* * * * *"})).await.unwrap_err();
        assert_eq!(error, text);
    }
    // The event of a call that says none is CREATE, as the first version of OpenWhisk's package had it.
    let arguments = json!({"triggerName": "t", "lifecycleEvent": null, "cron": "* * * * *"});
    let invocation =
        call("whisk.system/alarms/alarm", arguments, Mode::Blocking { wait: Duration::from_secs(60) });
    world.controller().invoke(&world.server.guest().await, invocation).await.unwrap();
    assert_eq!(world.read("t").await["config"]["cron"], "* * * * *");
    world.server.stop().await;
}

#[tokio::test]
async fn a_feed_goes_with_its_trigger_and_its_namespace() {
    let world = World::new().await;
    let guest = world.server.guest().await;
    world.create("alarm", "t", json!({"cron": "* * * * *"})).await;
    world.controller().delete_trigger(&guest, &at("t")).await.unwrap();
    world.trigger("t").await;
    world.clock.advance(MINUTE);
    assert_eq!(world.controller().fire_due().await.unwrap(), None);
    assert!(world.ask("alarm", "t", "READ", json!({})).await.is_err());

    world.create("alarm", "t", json!({"cron": "* * * * *"})).await;
    world.controller().delete_namespace(&"guest".parse().unwrap()).await.unwrap();
    world.clock.advance(MINUTE);
    assert_eq!(world.controller().fire_due().await.unwrap(), None);
    assert!(world.server.executor.calls_of("guest/work").is_empty());
    world.server.stop().await;
}

#[tokio::test]
async fn feeds_of_a_namespace_are_bounded_in_number_and_pace() {
    let world = World::with(|mut config| {
        config.feeds.per_namespace = 2;
        config.feeds.min_interval = Duration::from_secs(60);
        config
    })
    .await;
    for name in ["u", "v"] {
        world.trigger(name).await;
    }
    let fast = world.ask("alarm", "t", "CREATE", json!({"cron": "*/30 * * * * *"})).await.unwrap_err();
    assert_eq!(fast, "cron pattern is limited to 5 fields with 1 minute as the finest granularity");
    for name in ["t", "u"] {
        world.create("alarm", name, json!({"cron": "* * * * *"})).await;
    }
    let full = world.ask("alarm", "v", "CREATE", json!({"cron": "* * * * *"})).await.unwrap_err();
    assert!(full.contains("has 2 feeds, which is the most"), "{full}");
    world.ask("alarm", "u", "UPDATE", json!({"cron": "*/2 * * * *"})).await.unwrap();
    world.ask("alarm", "u", "DELETE", json!({})).await.unwrap();
    world.create("alarm", "v", json!({"cron": "* * * * *"})).await;
    world.server.stop().await;
}

#[tokio::test]
async fn a_feed_is_called_in_every_way_a_function_is() {
    let world = World::new().await;
    let guest = world.server.guest().await;
    let record = async |id: ActivationId| {
        eventually("the record", || async {
            world.controller().activation(&guest, &"guest".parse().unwrap(), id).await.ok()
        })
        .await
    };
    // Without waiting.
    let arguments = json!({"triggerName": "t", "lifecycleEvent": "CREATE", "cron": "* * * * *"});
    let invocation = call("whisk.system/alarms/alarm", arguments, Mode::NonBlocking);
    let answer = world.controller().invoke(&guest, invocation).await.unwrap();
    let made = record(answer.activation()).await;
    assert_eq!((made.response.status, made.kind.unwrap().as_str()), (Status::Success, "builtin"));
    assert_eq!(made.path.to_string(), "whisk.system/alarms/alarm");
    assert_eq!(world.read("t").await["config"]["cron"], "* * * * *");
    // As what a rule calls.
    world.trigger("reads").await;
    let put = PutRule {
        trigger: Some("guest/reads".parse().unwrap()),
        action: Some("whisk.system/alarms/alarm".parse().unwrap()),
        ..PutRule::default()
    };
    world.controller().put_rule(&guest, at("reader"), put).await.unwrap();
    let arguments = json!({"triggerName": "t", "lifecycleEvent": "DELETE"});
    let firing = flint_controller::Firing {
        path: at("reads"),
        payload: arguments.to_string().into(),
        headers: json!({}),
        transaction: "test".into(),
        arrived: Instant::now(),
        api_key: None,
    };
    world.controller().fire(&guest, firing).await.unwrap();
    eventually("the deletion", || async { world.ask("alarm", "t", "READ", json!({})).await.err() }).await;
    world.server.stop().await;
}

#[tokio::test]
async fn a_feed_ends_by_a_date_or_after_so_many_firings_and_not_by_both() {
    let world = World::new().await;
    world.trigger("u").await;
    let stop = NEW_YEAR + 60 * MINUTE;
    world.create("alarm", "t", json!({"cron": "*/5 * * * *", "stopDate": stop})).await;
    world.create("interval", "u", json!({"minutes": 5, "maxTriggers": 3})).await;
    let both = "maxTriggers is not allowed when the stopDate parameter is specified";
    let before = ": it has a maxTriggers from before, which maxTriggers -1 beside the stopDate removes";
    for (feed, trigger, given, more) in [
        ("alarm", "t", json!({"maxTriggers": 3}), ""),
        ("alarm", "t", json!({"maxTriggers": 3, "trigger_payload": "hi"}), ""),
        ("interval", "u", json!({ "stopDate": stop }), before),
        ("interval", "u", json!({"stopDate": stop, "maxTriggers": 3}), ""),
    ] {
        let refused = world.ask(feed, trigger, "UPDATE", given).await.unwrap_err();
        assert_eq!(refused, format!("{both}{more}"), "{trigger}");
    }
    assert_eq!(world.read("t").await["status"].get("triggersLeft"), None);
    world.ask("alarm", "t", "UPDATE", json!({"cron": "*/7 * * * *", "maxTriggers": -1})).await.unwrap();
    world.ask("interval", "u", "UPDATE", json!({"stopDate": stop, "maxTriggers": -1})).await.unwrap();
    assert_eq!(world.read("u").await["status"].get("triggersLeft"), None);
    world.server.stop().await;
}

#[tokio::test]
async fn feeds_are_read_and_their_instants_searched_for_off_the_async_threads() {
    let world = World::new().await;
    let server = &world.server;
    server.aside(world.create("alarm", "t", json!({"cron": "*/5 * * * *"}))).await;
    server.aside(world.ask("alarm", "t", "UPDATE", json!({"cron": "*/7 * * * *"}))).await.unwrap();
    assert_eq!(server.aside(world.read("t")).await["config"]["cron"], "*/7 * * * *");
    let never = server.aside(world.ask("alarm", "t", "UPDATE", json!({"cron": "0 0 8-31 * +1#1"})));
    let text = "cron pattern '0 0 8-31 * +1#1' is not valid: there is no such date";
    assert_eq!(never.await.unwrap_err(), text);
    world.server.stop().await;
}
