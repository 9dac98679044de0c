//! Triggers that fire when messages come, from a real server of NATS.

#[path = "../../../nats/tests/support/mod.rs"]
mod broker;

use std::time::{Duration, Instant};

use async_nats::jetstream::{
    self,
    stream::{Config, RetentionPolicy},
};
use flint_controller::{
    Accepts, Answer, ControllerConfig, Invocation, Mode, PrepareWhen, PutCode, PutFunction, PutRule,
    PutTrigger,
};
use flint_executor::Body;
use flint_model::{EntityPath, NamespaceLimits, Status};
use futures_util::StreamExt;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::support::{Server, config, eventually};

/// A broker, and a server with a trigger `t` of guest's whose rule `r` calls `work`.
struct World {
    broker: broker::Server,
    server: Server,
    _dir: TempDir,
}

impl World {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut ControllerConfig)) -> Self {
        let (broker, dir) = (broker::Server::start(&[]).await, tempfile::tempdir().unwrap());
        let mut config = config();
        config.limits.fires_per_minute = 100_000;
        config.feeds.nats_hosts = vec![broker.url().parse().unwrap()];
        config.feeds.nats_allow_private = true;
        change(&mut config);
        let world = Self { broker, server: Server::start(dir.path(), config).await, _dir: dir };
        let code = PutCode {
            kind: "nodejs".to_owned(),
            content: "echo".to_owned().into(),
            format: None,
            main: None,
        };
        let put = PutFunction { code: Some(code), prepare: PrepareWhen::Now, ..PutFunction::default() };
        let (guest, work) = (world.server.guest().await, "guest/work".parse().unwrap());
        world.server.controller.put_function(&guest, work, put, &|_| {}).await.unwrap();
        world.trigger("t").await;
        world
    }

    /// A trigger with a rule for `work`.
    async fn trigger(&self, name: &str) {
        self.trigger_alone(name).await;
        self.rule(name).await;
    }

    async fn trigger_alone(&self, name: &str) {
        let guest = self.server.guest().await;
        self.server.controller.put_trigger(&guest, at(name), PutTrigger::default()).await.unwrap();
    }

    async fn rule(&self, name: &str) {
        let guest = self.server.guest().await;
        let [trigger, action] = [name, "work"].map(|name| Some(format!("guest/{name}").parse().unwrap()));
        let put = PutRule { trigger, action, ..PutRule::default() };
        self.server.controller.put_rule(&guest, at(&format!("r-{name}")), put).await.unwrap();
    }

    /// Calls the feed for a trigger.
    async fn ask(&self, trigger: &str, event: &str, given: Value) -> Result<Value, String> {
        let mut arguments: Map<String, Value> = given.as_object().cloned().unwrap();
        arguments.insert("triggerName".to_owned(), json!(trigger));
        arguments.insert("lifecycleEvent".to_owned(), json!(event));
        let invocation = Invocation {
            path: "whisk.system/messaging/natsFeed".parse().unwrap(),
            body: Body::Full(Value::from(arguments).to_string().into()),
            head: None,
            mode: Mode::Blocking { wait: Duration::from_secs(60) },
            accepts: Accepts::Json,
            transaction: "test".into(),
            arrived: Instant::now(),
            api_key: None,
        };
        let guest = self.server.guest().await;
        let Ok(Answer::Finished(record)) = self.server.controller.invoke(&guest, invocation).await else {
            panic!("the feed did not answer");
        };
        let result: Value = serde_json::from_str(record.response.result.unwrap().get()).unwrap();
        match record.response.status {
            Status::Success => Ok(result),
            Status::ApplicationError => Err(result["error"]["error"].as_str().unwrap().to_owned()),
            other => panic!("{other:?}: {result}"),
        }
    }

    /// Gives a trigger a feed, and waits until it listens.
    async fn listening(&self, trigger: &str, mut given: Value) {
        given["servers"] = json!([self.broker.url()]);
        self.ask(trigger, "CREATE", given).await.unwrap();
        self.connection(trigger, "connected").await;
    }

    async fn status(&self, trigger: &str) -> Value {
        self.ask(trigger, "READ", json!({})).await.unwrap()["status"].take()
    }

    /// Waits until a trigger's connection is said to be so.
    async fn connection(&self, trigger: &str, text: &str) {
        eventually(text, || async {
            let status = self.status(trigger).await;
            status["connection"].as_str().is_some_and(|state| state.contains(text)).then_some(())
        })
        .await;
    }

    async fn stream(&self) -> jetstream::stream::Stream {
        let subjects = vec!["orders.>".to_owned()];
        let config = Config { name: "ORDERS".to_owned(), subjects, ..Config::default() };
        let context = jetstream::new(self.broker.client().await);
        context.get_or_create_stream(config).await.unwrap()
    }

    /// Sends numbers; of a stream's subject, returns when it has them.
    async fn publish(&self, subject: &'static str, range: std::ops::Range<usize>) {
        let client = self.broker.client().await;
        let context = jetstream::new(client.clone());
        for number in range {
            let text = number.to_string().into();
            match subject.starts_with("orders") {
                true => drop(context.publish(subject, text).await.unwrap().await.unwrap()),
                false => client.publish(subject, text).await.unwrap(),
            }
        }
        client.flush().await.unwrap();
    }

    /// Texts of the messages that `work` was called with, once there are so many, sorted as numbers; each as often as it came.
    async fn values(&self, count: usize) -> Vec<String> {
        let mut values = eventually("the messages", || async {
            let values: Vec<String> = self
                .events()
                .iter()
                .flat_map(|event| event["messages"].as_array().unwrap().clone())
                .map(|message| message["value"].as_str().unwrap().to_owned())
                .collect();
            (values.len() >= count).then_some(values)
        })
        .await;
        values.sort_by_key(|value| value.parse::<usize>().unwrap());
        values
    }

    fn events(&self) -> Vec<Value> {
        let calls = self.server.executor.calls_of("guest/work");
        calls.iter().map(|call| serde_json::from_str(call).unwrap()).collect()
    }
}

fn at(name: &str) -> EntityPath {
    format!("guest/{name}").parse().unwrap()
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

fn of_stream() -> Value {
    json!({"subject": "orders.new", "stream": "ORDERS"})
}

#[tokio::test]
async fn messages_of_a_subject_fire_a_trigger_in_batches() {
    let world = World::new().await;
    world.listening("t", json!({"subject": "news.*", "queue": "q", "trigger_payload": {"of": "t"}})).await;
    world.publish("news.today", 0..500).await;
    assert_eq!(world.values(500).await, numbers(0..500));
    let events = world.events();
    let event = &events[0];
    assert_eq!(
        (&event["of"], &event["messages"][0]["subject"], &event["__ow_headers"]["x-flint-feed"]),
        (&json!("t"), &json!("news.today"), &json!("/whisk.system/messaging/natsFeed"))
    );
    assert!(events.len() < 500, "they come together");
    assert_eq!(world.status("t").await["fired"], events.len());
    world.server.stop().await;
}

#[tokio::test]
async fn messages_of_a_stream_wait_for_a_namespace_that_may_not_fire() {
    let world = World::new().await;
    world.stream().await;
    world.listening("t", of_stream()).await;
    let guest = "guest".parse().unwrap();
    let none = NamespaceLimits { fires_per_minute: Some(0), ..NamespaceLimits::default() };
    world.server.controller.set_limits(&guest, none).await.unwrap();
    world.publish("orders.new", 0..150).await;
    world
        .connection("t", "what has come waits, because the trigger cannot be fired: Too many requests")
        .await;
    assert!(world.events().is_empty());
    world.server.controller.set_limits(&guest, NamespaceLimits::default()).await.unwrap();
    assert_eq!(world.values(150).await, numbers(0..150));
    world.connection("t", "connected").await;
    let numbers: Vec<_> =
        world.events().iter().map(|event| event["__ow_headers"]["x-flint-instant"].clone()).collect();
    assert!(numbers.iter().all(Value::is_string), "{numbers:?}");
    world.server.stop().await;
}

#[tokio::test]
async fn what_the_broker_gives_again_meanwhile_is_not_fired_for_twice() {
    let world = World::new().await;
    let stream = world.stream().await;
    world.listening("t", of_stream()).await;
    let guest = "guest".parse().unwrap();
    let none = NamespaceLimits { fires_per_minute: Some(0), ..NamespaceLimits::default() };
    world.server.controller.set_limits(&guest, none).await.unwrap();
    world.publish("orders.new", 0..250).await;
    world.connection("t", "what has come waits").await;
    let reader = stream.consumer_names().next().await.unwrap().unwrap();
    let info = async || stream.consumer_info(&reader).await.unwrap();
    eventually("all is given", || async { (info().await.num_ack_pending == 250).then_some(()) }).await;
    // As when the broker's patience has ended: what was given and is not done comes once more, behind what waits.
    let client = world.broker.client().await;
    for number in 1..=250 {
        let subject = format!("$JS.ACK.ORDERS.{reader}.1.{number}.{number}.1.0");
        client.publish(subject, "-NAK".into()).await.unwrap();
    }
    client.flush().await.unwrap();
    eventually("some is given again", || async { (info().await.num_redelivered > 0).then_some(()) }).await;
    world.server.controller.set_limits(&guest, NamespaceLimits::default()).await.unwrap();
    assert_eq!(world.values(250).await, numbers(0..250));
    world.connection("t", "connected").await;
    assert_eq!(world.values(250).await, numbers(0..250));
    world.server.stop().await;
}

#[tokio::test]
async fn messages_of_a_stream_wait_for_a_namespace_whose_calls_are_too_many() {
    let world = World::new().await;
    world.stream().await;
    world.listening("t", of_stream()).await;
    let (controller, guest) = (&world.server.controller, "guest".parse().unwrap());
    let none = NamespaceLimits { concurrent_invocations: Some(0), ..NamespaceLimits::default() };
    controller.set_limits(&guest, none).await.unwrap();
    world.publish("orders.new", 0..150).await;
    // Nothing can be called now, the feed's own function neither, so it is the metrics that tell.
    let refusals = r#"flint_throttled_total{namespace="guest",limit="concurrency"}"#;
    eventually("a refusal", || async { controller.render_metrics().await.contains(refusals).then_some(()) })
        .await;
    assert!(world.events().is_empty());
    controller.set_limits(&guest, NamespaceLimits::default()).await.unwrap();
    assert_eq!(world.values(150).await, numbers(0..150));
    world.server.stop().await;
}

#[tokio::test]
async fn messages_of_a_stream_wait_for_a_rule() {
    let world = World::new().await;
    world.stream().await;
    world.publish("orders.new", 0..3).await;
    world.trigger_alone("u").await;
    world.ask("u", "CREATE", json!({"servers": [world.broker.url()], "subject": "orders.new", "stream": "ORDERS", "deliver": "all"})).await.unwrap();
    world.connection("u", "because the trigger has no rule yet").await;
    world.rule("u").await;
    assert_eq!(world.values(3).await, numbers(0..3));
    world.server.stop().await;
}

#[tokio::test]
async fn a_feed_is_read_paused_changed_and_deleted() {
    let world = World::new().await;
    let mut stream = world.stream().await;
    let given = json!({"subject": "orders.new", "stream": "ORDERS", "user": "u", "password": "hunter2", "trigger_payload": {"a": 1}});
    world.listening("t", given).await;
    let read = world.ask("t", "READ", json!({})).await.unwrap();
    assert_eq!(
        read["config"],
        json!({
            "name": "t", "namespace": "guest", "payload": {"a": 1}, "servers": [format!("nats://{}", world.broker.url())],
            "subject": "orders.new", "stream": "ORDERS", "deliver": "new", "isJSONData": false, "isBinaryValue": false, "tls": false,
            "user": "u",
        })
    );
    world.publish("orders.new", 0..1).await;
    world.values(1).await;

    // What comes while it is paused is fired for afterwards.
    world.ask("t", "PAUSE", json!({})).await.unwrap();
    eventually("the end of listening", || async {
        world.status("t").await.get("connection").is_none().then_some(())
    })
    .await;
    world.publish("orders.new", 1..3).await;
    assert_eq!(world.status("t").await["reason"]["message"], "Paused");
    assert_eq!(world.events().len(), 1);
    world.ask("t", "UNPAUSE", json!({})).await.unwrap();
    assert_eq!(world.values(3).await, numbers(0..3));

    // Of another subject, what comes after what was read.
    world.ask("t", "UPDATE", json!({"subject": "orders.>"})).await.unwrap();
    world.publish("orders.old", 3..5).await;
    assert_eq!(world.values(5).await, numbers(0..5));
    let nothing = world.ask("t", "UPDATE", json!({"cron": "* * * * *"})).await.unwrap_err();
    assert_eq!(nothing, "no updatable parameters were specified");
    let both = world.ask("t", "UPDATE", json!({"queue": "q"})).await.unwrap_err();
    assert!(both.contains("cannot be used together"), "{both}");

    assert_eq!(stream.info().await.unwrap().state.consumer_count, 1);
    world.ask("t", "DELETE", json!({})).await.unwrap();
    let gone = world.ask("t", "READ", json!({})).await.unwrap_err();
    assert!(gone.contains("has no feed"), "{gone}");
    for _ in 0..6000 {
        if stream.info().await.unwrap().state.consumer_count == 0 {
            world.publish("orders.new", 5..6).await;
            assert_eq!(world.values(5).await, numbers(0..5));
            return world.server.stop().await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("its consumer is still there");
}

#[tokio::test]
async fn what_a_queue_has_of_another_subject_is_fired_for() {
    let world = World::new().await;
    let (name, subjects) = ("ORDERS".to_owned(), vec!["orders.>".to_owned()]);
    let config = Config { name, subjects, retention: RetentionPolicy::WorkQueue, ..Config::default() };
    jetstream::new(world.broker.client().await).create_stream(config).await.unwrap();
    world.publish("orders.old", 0..2).await;
    world.listening("t", of_stream()).await;
    world.publish("orders.new", 2..4).await;
    assert_eq!(world.values(2).await, numbers(2..4));
    world.ask("t", "UPDATE", json!({"subject": "orders.old"})).await.unwrap();
    assert_eq!(world.values(4).await, numbers(0..4));
    world.server.stop().await;
}

#[tokio::test]
async fn a_feed_that_is_made_anew_reads_anew() {
    let world = World::new().await;
    world.stream().await;
    world.publish("orders.new", 0..2).await;
    let given = json!({"subject": "orders.new", "stream": "ORDERS", "deliver": "all"});
    world.listening("t", given.clone()).await;
    assert_eq!(world.values(2).await, numbers(0..2));
    world.ask("t", "DELETE", json!({})).await.unwrap();
    world.listening("t", given).await;
    assert_eq!(world.values(4).await, ["0", "0", "1", "1"]);
    // A trigger takes its feed along, and a namespace too.
    let guest = world.server.guest().await;
    world.server.controller.delete_trigger(&guest, &at("t")).await.unwrap();
    world.trigger("u").await;
    world.listening("u", of_stream()).await;
    world.server.controller.delete_namespace(&"guest".parse().unwrap()).await.unwrap();
    world.publish("orders.new", 2..4).await;
    assert_eq!(world.values(4).await.len(), 4);
    world.server.stop().await;
}

#[tokio::test]
async fn a_broker_that_goes_away_is_seen_and_comes_back() {
    let mut world = World::new().await;
    world.stream().await;
    world.listening("t", of_stream()).await;
    world.publish("orders.new", 0..10).await;
    world.values(10).await;
    world.broker.kill();
    world.connection("t", "no server can be used").await;
    assert_eq!(world.status("t").await["active"], true);
    world.broker.restart().await;
    world.publish("orders.new", 10..20).await;
    assert_eq!(world.values(20).await, numbers(0..20));
    world.connection("t", "connected").await;
    world.server.stop().await;
}

#[tokio::test]
async fn it_fires_as_often_as_it_may() {
    let world = World::new().await;
    world.stream().await;
    let mut given = of_stream();
    given["maxTriggers"] = json!(1);
    world.listening("t", given).await;
    world.publish("orders.new", 0..1).await;
    assert_eq!(world.values(1).await, ["0"]);
    eventually("its end", || async { (world.status("t").await["active"] == false).then_some(()) }).await;
    world.publish("orders.new", 1..2).await;
    assert_eq!(
        world.status("t").await["reason"]["message"],
        "Automatically disabled after reaching max triggers"
    );
    // What has come meanwhile is read when it may fire again.
    world.ask("t", "UPDATE", json!({"maxTriggers": 5})).await.unwrap();
    assert_eq!(world.values(2).await, numbers(0..2));
    world.server.stop().await;
}

#[tokio::test]
async fn connections_are_bounded_and_go_where_the_operator_allows() {
    let world = World::with(|config| config.feeds.nats_connections_per_namespace = 1).await;
    world.trigger("u").await;
    world.listening("t", json!({"subject": "s"})).await;
    world.ask("u", "CREATE", json!({"servers": world.broker.url(), "subject": "s"})).await.unwrap();
    world.connection("u", "waiting: this namespace has as many").await;
    world.ask("t", "DELETE", json!({})).await.unwrap();
    world.connection("u", "connected").await;
    let error =
        world.ask("t", "CREATE", json!({"servers": "127.0.0.1:1", "subject": "s"})).await.unwrap_err();
    assert!(error.contains("connections to nats://127.0.0.1:1 are not allowed"), "{error}");
    world.server.stop().await;

    // That a host may be named does not mean that it may be this one.
    let world = World::with(|config| config.feeds.nats_allow_private = false).await;
    world.ask("t", "CREATE", json!({"servers": world.broker.url(), "subject": "s"})).await.unwrap();
    world.connection("t", "feeds.nats_allow_private").await;
    world.server.stop().await;

    let world = World::with(|config| config.feeds.nats_hosts.clear()).await;
    let error =
        world.ask("t", "CREATE", json!({"servers": world.broker.url(), "subject": "s"})).await.unwrap_err();
    assert!(error.contains("this server makes no connections to NATS"), "{error}");
    world.server.stop().await;
}
