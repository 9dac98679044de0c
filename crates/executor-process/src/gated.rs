//! An instance that outlives its calls' deadlines, which end the calls' requests to the API.

use async_trait::async_trait;
use flint_executor::{Call, Instance, Invoked};
use flint_gate::Gate;
use flint_model::{ByteSize, InstanceId};
use tokio::time::sleep_until;

/// An instance that serves calls concurrently and has a gate. An instance that serves one call at a time ends
/// with its sandbox at the deadline, and all its connections with it; here the sandbox goes on, so the gate
/// is told each call's deadline.
pub(crate) struct Gated<I> {
    pub(crate) instance: I,
    pub(crate) gate: Gate,
}

#[async_trait]
impl<I: Instance> Instance for Gated<I> {
    fn id(&self) -> InstanceId {
        self.instance.id()
    }

    async fn invoke(&self, call: Call) -> Invoked {
        let deadline = call.deadline;
        let running = self.gate.running(call.activation, deadline);
        let invoked = self.instance.invoke(call).await;
        if matches!(invoked, Invoked::Streaming { .. }) {
            // A stream ends by then at the latest.
            tokio::spawn(async move {
                sleep_until(deadline.into()).await;
                drop(running);
            });
        }
        invoked
    }

    async fn memory(&self) -> Option<ByteSize> {
        self.instance.memory().await
    }

    async fn pause(&self) {
        self.instance.pause().await;
    }

    async fn resume(&self) {
        self.instance.resume().await;
    }

    async fn ended(&self) {
        self.instance.ended().await;
    }

    async fn stop(&self) {
        self.instance.stop().await;
    }
}
