//! An instance that serves one call at a time over the link.

use std::sync::Arc;

use async_trait::async_trait;
use flint_executor::{
    Call, Instance, Invoked,
    link::{FrameKind, Restore},
};
use flint_model::{ByteSize, InstanceId};
use flint_sandbox::Sandbox;
use tokio::sync::Mutex;

use super::{
    call::{self, Outcome},
    channel::Channel,
    launch::Cell,
};
use crate::{
    outcome::refused,
    prepare::artefact::SharedArtefact,
    process::{ending, meter, relay::RelayTask},
};

/// A shim with a loaded function.
pub struct HandlerInstance {
    id: InstanceId,
    sandbox: Arc<Sandbox>,
    channel: Arc<Mutex<Channel>>,
    /// The task that streams the rest of an answer.
    relay: RelayTask,
    /// Keeps the code on disk for as long as the sandbox sees it.
    _artefact: SharedArtefact,
}

impl HandlerInstance {
    /// Measures calls from now on.
    pub async fn new(id: InstanceId, mut cell: Cell, artefact: SharedArtefact) -> Self {
        // The CPU time of loading the code is not the first call's.
        cell.channel.meter.reset(&cell.sandbox).await;
        let channel = Arc::new(Mutex::new(cell.channel));
        Self { id, sandbox: cell.sandbox, channel, relay: RelayTask::default(), _artefact: artefact }
    }

    /// A clone that was just forked. RESTORE, which makes it unique, is sent ahead of its first call and
    /// handled before it.
    pub fn restored(
        id: InstanceId,
        mut cell: Cell,
        artefact: SharedArtefact,
        restore: &Restore<'_>,
        siblings: Arc<meter::Siblings>,
    ) -> Self {
        cell.channel.meter.compare(siblings);
        let json = serde_json::to_vec(restore).unwrap_or_default();
        cell.channel.send(FrameKind::Restore, 0, &json);
        let channel = Arc::new(Mutex::new(cell.channel));
        Self { id, sandbox: cell.sandbox, channel, relay: RelayTask::default(), _artefact: artefact }
    }

    /// Its sandbox.
    pub fn sandbox(&self) -> &Arc<Sandbox> {
        &self.sandbox
    }
}

#[async_trait]
impl Instance for HandlerInstance {
    fn id(&self) -> InstanceId {
        self.id
    }

    async fn invoke(&self, call: Call) -> Invoked {
        let Ok(mut channel) = Arc::clone(&self.channel).try_lock_owned() else {
            return refused("the instance is serving another call");
        };
        call::forget_idle_output(&mut channel).await;
        match call::run(channel, Arc::clone(&self.sandbox), call, false).await {
            Outcome::Over(invoked) => invoked,
            Outcome::Streaming(invoked, relay) => {
                self.relay.spawn(relay.run());
                invoked
            }
        }
    }

    async fn memory(&self) -> Option<ByteSize> {
        meter::memory(&self.sandbox).await
    }

    async fn pause(&self) {
        ending::pause(&self.sandbox).await;
    }

    async fn resume(&self) {
        ending::resume(&self.sandbox).await;
    }

    async fn ended(&self) {
        self.sandbox.wait().await;
    }

    async fn stop(&self) {
        ending::completely(&self.sandbox).await;
        self.relay.finish().await;
    }
}

impl Drop for HandlerInstance {
    fn drop(&mut self) {
        self.sandbox.kill();
    }
}
