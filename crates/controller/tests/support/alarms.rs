//! A server with a trigger that alarms fire, by a clock that the test moves.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use flint_controller::{
    Accepts, Answer, Caller, Controller, ControllerConfig, Invocation, Mode, PrepareWhen, PutCode,
    PutFunction, PutRule, PutTrigger,
};
use flint_executor::Body;
use flint_model::{EntityPath, Status};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::{ManualClock, Server, config, eventually};

/// 2026-01-01T00:00:00Z
pub const NEW_YEAR: u64 = 1_767_225_600_000;
pub const MINUTE: u64 = 60_000;

/// A server with a trigger `t` of guest's whose rule `r` calls `work`, which answers with its arguments.
pub struct World {
    pub clock: Arc<ManualClock>,
    pub server: Server,
    pub dir: TempDir,
}

impl World {
    pub async fn new() -> Self {
        Self::with(|config| config).await
    }

    pub async fn with(change: impl FnOnce(ControllerConfig) -> ControllerConfig) -> Self {
        let (clock, dir) = (ManualClock::at(NEW_YEAR), tempfile::tempdir().unwrap());
        let server = Server::start_by(dir.path(), change(config()), Arc::clone(&clock) as _).await;
        let world = Self { clock, server, dir };
        world.function("work", "echo").await;
        world.trigger("t").await;
        world.rule("r", "t", "work").await;
        world
    }

    /// The server is killed, and another one starts when the clock shows a later time.
    pub async fn killed_for(self, millis: u64) -> Self {
        let Self { clock, server, dir } = self;
        server.die();
        clock.advance(millis);
        let server = Server::start_by(dir.path(), config(), Arc::clone(&clock) as _).await;
        Self { clock, server, dir }
    }

    pub fn controller(&self) -> &Arc<Controller> {
        &self.server.controller
    }

    pub async fn function(&self, name: &str, script: &str) {
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

    pub async fn trigger(&self, name: &str) {
        let guest = self.server.guest().await;
        self.controller().put_trigger(&guest, at(name), PutTrigger::default()).await.unwrap();
    }

    pub async fn rule(&self, name: &str, trigger: &str, action: &str) {
        let [trigger, action] = [trigger, action].map(|name| Some(format!("guest/{name}").parse().unwrap()));
        let put = PutRule { trigger, action, ..PutRule::default() };
        self.controller().put_rule(&self.server.guest().await, at(name), put).await.unwrap();
    }

    /// Calls a feed of the alarms for a trigger.
    pub async fn ask(&self, feed: &str, trigger: &str, event: &str, given: Value) -> Result<Value, String> {
        let caller = self.server.guest().await;
        self.ask_as(&caller, feed, trigger, event, given).await
    }

    pub async fn ask_as(
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

    pub async fn create(&self, feed: &str, trigger: &str, given: Value) {
        let answer = self.ask(feed, trigger, "CREATE", given).await;
        assert_eq!(answer, Ok(json!({"status": "success"})));
    }

    pub async fn read(&self, trigger: &str) -> Value {
        self.ask("alarm", trigger, "READ", json!({})).await.unwrap()
    }

    /// How often the feed of a trigger has fired, everything that is due now included.
    pub async fn fired(&self, trigger: &str) -> u64 {
        self.controller().fire_due().await.unwrap();
        self.read(trigger).await["status"]["fired"].as_u64().unwrap()
    }

    /// Arguments of the calls of a function, once there are so many.
    pub async fn calls(&self, name: &str, count: usize) -> Vec<Value> {
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

    pub async fn instants(&self, name: &str, count: usize) -> Vec<u64> {
        self.calls(name, count).await.iter().map(instant_of).collect()
    }
}

pub fn at(name: &str) -> EntityPath {
    format!("guest/{name}").parse().unwrap()
}

pub fn instant_of(arguments: &Value) -> u64 {
    arguments["__ow_headers"]["x-flint-instant"].as_str().unwrap().parse().unwrap()
}

pub fn call(path: &str, arguments: Value, mode: Mode) -> Invocation {
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
