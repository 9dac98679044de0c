//! A simulated instance.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use flint_executor::{Call, CallEnd, Fault, Instance, Invoked, Reply, ReplyHead, body_channel};
use flint_model::{ByteSize, Function, InstanceId, LogLine, LogStream, Usage};
use http::{HeaderMap, StatusCode};
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep, sleep_until, timeout_at},
};

use super::{Answer, Script, Seen, executor::lock};
use crate::entry::slots;

pub(super) struct SimInstance {
    id: InstanceId,
    path: String,
    slots: u32,
    script: Script,
    seen: Arc<Mutex<Seen>>,
    state: Mutex<State>,
    /// When it is going to end by itself.
    dies_at: watch::Sender<Option<Instant>>,
    stopped: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    calls: u32,
    paused: bool,
    stopped: bool,
    has_served: bool,
}

impl SimInstance {
    pub(super) fn create(
        id: InstanceId,
        function: &Function,
        script: Script,
        seen: Arc<Mutex<Seen>>,
    ) -> Arc<Self> {
        let path = function.path.to_string();
        {
            let mut seen = lock(&seen);
            let live = seen.live.entry(path.clone()).or_default();
            *live += 1;
            let live = *live;
            let most = seen.most_live.entry(path.clone()).or_default();
            *most = live.max(*most);
        }
        let dies_at = script.dies_idle_after.map(|after| Instant::now() + after);
        Arc::new(Self {
            id,
            path,
            slots: slots(function, &function.strategy),
            script,
            seen,
            state: Mutex::default(),
            dies_at: watch::channel(dies_at).0,
            stopped: watch::channel(false).0,
        })
    }

    fn violation(&self, what: &str) {
        lock(&self.seen).violations.push(format!("{} of {}: {what}", self.id, self.path));
    }

    fn end(&self) {
        if !std::mem::replace(&mut lock(&self.state).stopped, true) {
            let mut seen = lock(&self.seen);
            if let Some(live) = seen.live.get_mut(&self.path) {
                *live -= 1;
            }
        }
        self.stopped.send_replace(true);
    }

    fn good_end(&self) -> CallEnd {
        *lock(&self.seen).served.entry(self.path.clone()).or_default() += 1;
        CallEnd {
            logs: vec![LogLine { time_us: 1, stream: LogStream::Stdout, text: "calling".to_owned() }],
            usage: Usage {
                cpu_us: self.script.cpu.map(|cpu| cpu.as_micros() as u64),
                memory_peak: Some(self.script.memory),
            },
            reusable: true,
            ..CallEnd::default()
        }
    }

    fn service_time(&self) -> Duration {
        let first = !std::mem::replace(&mut lock(&self.state).has_served, true);
        self.script.service + if first { self.script.first_call } else { Duration::ZERO }
    }

    async fn serve(&self, call: Call) -> Invoked {
        let deadline = Instant::from_std(call.deadline);
        let until_deadline = |work: Duration| timeout_at(deadline, sleep(work));
        let failed = |fault| Invoked::Done { result: Err(fault), end: CallEnd::default() };
        match &self.script.answer {
            Answer::Hang => std::future::pending().await,
            Answer::Json => match until_deadline(self.service_time()).await {
                Err(_) => failed(Fault::Deadline),
                Ok(()) => {
                    let reply = Reply { head: ReplyHead::Json, body: Bytes::from_static(b"{}") };
                    Invoked::Done { result: Ok(reply), end: self.good_end() }
                }
            },
            Answer::Fault(fault) => {
                let _ = until_deadline(self.script.service).await;
                failed(fault.clone())
            }
            Answer::Stream(pieces) => {
                let (sender, body) = body_channel();
                let (end_sender, end) = oneshot::channel();
                let (pieces, service, good) = (*pieces, self.script.service, self.good_end());
                let seen = Arc::clone(&self.seen);
                tokio::spawn(async move {
                    for _ in 0..pieces {
                        sleep(service).await;
                        let _ = sender.send(Ok(Bytes::from_static(b"piece"))).await;
                    }
                    if end_sender.send(good).is_err() {
                        lock(&seen).violations.push("nobody waited for the end of a stream".to_owned());
                    }
                });
                Invoked::Streaming {
                    head: ReplyHead::Http { status: StatusCode::OK, headers: HeaderMap::new() },
                    body,
                    end,
                }
            }
        }
    }
}

impl Drop for SimInstance {
    fn drop(&mut self) {
        self.end();
    }
}

struct InCall<'a>(&'a SimInstance);

impl Drop for InCall<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).calls -= 1;
        let idle = self.0.script.dies_idle_after.map(|after| Instant::now() + after);
        self.0.dies_at.send_replace(idle);
    }
}

/// A pause in progress.
struct Pausing<'a>(&'a SimInstance);

impl<'a> Pausing<'a> {
    fn begin(instance: &'a SimInstance) -> Self {
        let mut seen = lock(&instance.seen);
        seen.pauses.0 += 1;
        seen.pausing.push(instance.path.clone());
        Self(instance)
    }
}

impl Drop for Pausing<'_> {
    fn drop(&mut self) {
        let pausing = &mut lock(&self.0.seen).pausing;
        if let Some(at) = pausing.iter().position(|path| *path == self.0.path) {
            pausing.remove(at);
        }
    }
}

#[async_trait]
impl Instance for SimInstance {
    fn id(&self) -> InstanceId {
        self.id
    }

    async fn invoke(&self, call: Call) -> Invoked {
        let wrong = {
            let mut state = lock(&self.state);
            state.calls += 1;
            match () {
                () if state.calls > self.slots => Some("more calls than slots"),
                () if state.paused => Some("a call while paused"),
                () if state.stopped => None,
                () => None,
            }
        };
        if let Some(wrong) = wrong {
            self.violation(wrong);
        }
        let _in_call = InCall(self);
        self.dies_at.send_replace(None);
        let mut stopped = self.stopped.subscribe();
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => {
                Invoked::Done { result: Err(Fault::Exited { end: None }), end: CallEnd::default() }
            }
            invoked = self.serve(call) => invoked,
        }
    }

    async fn memory(&self) -> Option<ByteSize> {
        Some(self.script.memory)
    }

    async fn pause(&self) {
        let _pausing = Pausing::begin(self);
        let busy = {
            let mut state = lock(&self.state);
            state.paused = true;
            state.calls > 0
        };
        if busy {
            self.violation("paused during a call");
        }
        sleep(self.script.pause).await;
    }

    async fn resume(&self) {
        sleep(Duration::from_millis(1)).await;
        lock(&self.seen).pauses.1 += 1;
        lock(&self.state).paused = false;
    }

    async fn ended(&self) {
        let mut dies_at = self.dies_at.subscribe();
        loop {
            let at = *dies_at.borrow_and_update();
            let changed = dies_at.changed();
            match at {
                Some(at) => tokio::select! {
                    () = sleep_until(at) => {
                        self.end();
                        return;
                    }
                    changed = changed => if changed.is_err() { return },
                },
                None => {
                    if changed.await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    async fn stop(&self) {
        sleep(self.script.stop).await;
        self.end();
    }
}
