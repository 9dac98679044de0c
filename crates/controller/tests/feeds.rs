//! Alarms: what fires, when, how often, and what becomes of it over restarts. The clock is the test's.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use flint_controller::{
    Accepts, Answer, Caller, Controller, ControllerConfig, ControllerError, Invocation, Missed, Mode,
    PrepareWhen, PutCode, PutFunction, PutRule, PutTrigger,
};
use flint_executor::Body;
use flint_model::{ActivationId, EntityPath, NamespaceLimits, RuleStatus, Status};
use serde_json::{Map, Value, json};
use support::{ManualClock, Server, config, eventually};
use tempfile::TempDir;

/// 2026-01-01T00:00:00Z
const NEW_YEAR: u64 = 1_767_225_600_000;
const MINUTE: u64 = 60_000;

/// A server with a trigger `t` of guest's whose rule `r` calls `work`, which answers with its arguments.
struct World {
    clock: Arc<ManualClock>,
    server: Server,
    dir: TempDir,
}

fn config_at(clock: &Arc<ManualClock>) -> ControllerConfig {
    ControllerConfig { clock: Arc::clone(clock) as _, ..config() }
}

impl World {
    async fn new() -> Self {
        Self::with(|config| config).await
    }

    async fn with(change: impl FnOnce(ControllerConfig) -> ControllerConfig) -> Self {
        let (clock, dir) = (ManualClock::at(NEW_YEAR), tempfile::tempdir().unwrap());
        let server = Server::start(dir.path(), change(config_at(&clock))).await;
        let world = Self { clock, server, dir };
        world.function("work", "echo").await;
        world.trigger("t").await;
        world.rule("r", "t", "work").await;
        world
    }

    /// The server is killed, and another one starts when the clock shows a later time.
    async fn killed_for(self, millis: u64) -> Self {
        let Self { clock, server, dir } = self;
        server.die();
        clock.advance(millis);
        let server = Server::start(dir.path(), config_at(&clock)).await;
        Self { clock, server, dir }
    }

    fn controller(&self) -> &Arc<Controller> {
        &self.server.controller
    }

    async fn function(&self, name: &str, script: &str) {
        let code = PutCode {
            kind: "nodejs".to_owned(),
            content: script.to_owned().into(),
            format: None,
            main: None,
        };
        let put = PutFunction { code: Some(code), prepare: PrepareWhen::Now, ..PutFunction::default() };
        let path = format!("guest/{name}").parse().unwrap();
        self.controller().put_function(&self.server.guest().await, path, put, &|_| {}).await.unwrap();
    }

    async fn trigger(&self, name: &str) {
        let guest = self.server.guest().await;
        self.controller().put_trigger(&guest, at(name), PutTrigger::default()).await.unwrap();
    }

    async fn rule(&self, name: &str, trigger: &str, action: &str) {
        let [trigger, action] = [trigger, action].map(|name| Some(format!("guest/{name}").parse().unwrap()));
        let put = PutRule { trigger, action, ..PutRule::default() };
        self.controller().put_rule(&self.server.guest().await, at(name), put).await.unwrap();
    }

    /// Calls a feed of the alarms for a trigger.
    async fn ask(&self, feed: &str, trigger: &str, event: &str, given: Value) -> Result<Value, String> {
        let caller = self.server.guest().await;
        self.ask_as(&caller, feed, trigger, event, given).await
    }

    async fn ask_as(
        &self,
        caller: &Caller,
        feed: &str,
        trigger: &str,
        event: &str,
        given: Value,
    ) -> Result<Value, String> {
        let mut arguments: Map<String, Value> = given.as_object().cloned().unwrap();
        arguments.insert("triggerName".to_owned(), json!(trigger));
        arguments.insert("lifecycleEvent".to_owned(), json!(event));
        let invocation = call(
            &format!("whisk.system/alarms/{feed}"),
            arguments.into(),
            Mode::Blocking { wait: Duration::from_secs(60) },
        );
        let Ok(Answer::Finished(record)) = self.controller().invoke(caller, invocation).await else {
            panic!("the feed did not answer");
        };
        let result: Value = serde_json::from_str(record.response.result.unwrap().get()).unwrap();
        match record.response.status {
            Status::Success => Ok(result),
            Status::ApplicationError => Err(result["error"]["error"].as_str().unwrap().to_owned()),
            other => panic!("{other:?}: {result}"),
        }
    }

    async fn create(&self, feed: &str, trigger: &str, given: Value) {
        let answer = self.ask(feed, trigger, "CREATE", given).await;
        assert_eq!(answer, Ok(json!({"status": "success"})));
    }

    async fn read(&self, trigger: &str) -> Value {
        self.ask("alarm", trigger, "READ", json!({})).await.unwrap()
    }

    /// How often the feed of a trigger has fired, everything that is due now included.
    async fn fired(&self, trigger: &str) -> u64 {
        self.controller().fire_due().await.unwrap();
        self.read(trigger).await["status"]["fired"].as_u64().unwrap()
    }

    /// Arguments of the calls of a function, once there are so many.
    async fn calls(&self, name: &str, count: usize) -> Vec<Value> {
        let path = format!("guest/{name}");
        let calls = eventually("the calls", || async {
            let calls = self.server.executor.calls_of(&path);
            (calls.len() >= count).then_some(calls)
        })
        .await;
        let mut calls: Vec<Value> = calls.iter().map(|call| serde_json::from_str(call).unwrap()).collect();
        calls.sort_by_key(instant_of);
        calls
    }

    async fn instants(&self, name: &str, count: usize) -> Vec<u64> {
        self.calls(name, count).await.iter().map(instant_of).collect()
    }
}

fn at(name: &str) -> EntityPath {
    format!("guest/{name}").parse().unwrap()
}

fn instant_of(arguments: &Value) -> u64 {
    arguments["__ow_headers"]["x-flint-instant"].as_str().unwrap().parse().unwrap()
}

fn call(path: &str, arguments: Value, mode: Mode) -> Invocation {
    Invocation {
        path: path.parse().unwrap(),
        body: Body::Full(arguments.to_string().into()),
        head: None,
        mode,
        accepts: Accepts::Json,
        transaction: "test".into(),
        arrived: Instant::now(),
        api_key: None,
    }
}

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
    world.server.stop().await;
}

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
