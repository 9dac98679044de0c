//! A clone as an [`Instance`].

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use flint_executor::{Call, Instance, Invoked};
use flint_gate::Admission;
use flint_model::{ByteSize, InstanceId};
use flint_runtimes::handler::HandlerInstance;

use crate::zygote::Zygote;

/// A clone of a zygote, which lives in the zygote's sandbox and therefore keeps it alive.
pub(crate) struct Clone {
    // Fields are dropped in this order.
    handler: HandlerInstance,
    zygote: Arc<Zygote>,
    /// Marks the zygote as in use.
    _user: Arc<()>,
    /// The gate is the zygote's, since all clones share its network namespace. It admits this clone's
    /// namespace while the clone lives.
    _admission: Option<Admission>,
    calls: AtomicU64,
}

impl Clone {
    pub(crate) fn new(
        handler: HandlerInstance,
        zygote: Arc<Zygote>,
        user: Arc<()>,
        admission: Option<Admission>,
    ) -> Self {
        Self { handler, zygote, _user: user, _admission: admission, calls: AtomicU64::new(0) }
    }
}

#[async_trait]
impl Instance for Clone {
    fn id(&self) -> InstanceId {
        self.handler.id()
    }

    async fn invoke(&self, call: Call) -> Invoked {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.zygote.called();
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
        // Reported to the zygote once, however often the clone is stopped.
        let calls = self.calls.swap(0, Ordering::Relaxed);
        if let Some(exit) = self.handler.sandbox().exited() {
            self.zygote.siblings.ended(&exit, calls);
        }
    }
}
