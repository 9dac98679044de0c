//! A clone, as the pool sees it.

use std::sync::Arc;

use async_trait::async_trait;
use flint_executor::{Call, Instance, Invoked};
use flint_model::{ByteSize, InstanceId};
use flint_runtimes::handler::HandlerInstance;

use crate::zygote::Zygote;

/// A clone of a zygote. The zygote lives as long as its clones: its sandbox is theirs.
pub(crate) struct Clone {
    // Dropped in this order.
    handler: HandlerInstance,
    _zygote: Arc<Zygote>,
}

impl Clone {
    pub(crate) fn new(handler: HandlerInstance, zygote: Arc<Zygote>) -> Self {
        Self { handler, _zygote: zygote }
    }
}

#[async_trait]
impl Instance for Clone {
    fn id(&self) -> InstanceId {
        self.handler.id()
    }

    async fn invoke(&self, call: Call) -> Invoked {
        self.handler.invoke(call).await
    }

    async fn memory(&self) -> Option<ByteSize> {
        self.handler.memory().await
    }

    async fn pause(&self) {
        self.handler.pause().await;
    }

    async fn resume(&self) {
        self.handler.resume().await;
    }

    async fn ended(&self) {
        self.handler.ended().await;
    }

    async fn stop(&self) {
        self.handler.stop().await;
    }
}
