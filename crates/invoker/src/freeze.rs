//! Pausing and resuming an instance: whether it may use the processor.

use std::sync::atomic::{AtomicU8, Ordering};

use flint_executor::Instance;
use tokio::sync::Notify;

const RUNNING: u8 = 0;
const PAUSING: u8 = 1;
const PAUSED: u8 = 2;
const RESUMING: u8 = 3;

/// Whether an instance is running or paused. A call may take an instance while it is being paused: the call
/// waits for the pause to end and resumes the instance.
#[derive(Default)]
pub(crate) struct Freeze {
    state: AtomicU8,
    changed: Notify,
}

/// Sets the state that follows a change, also when the future making the change is dropped.
struct Changing<'a> {
    freeze: &'a Freeze,
    then: u8,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.freeze.state.store(self.then, Ordering::Release);
        self.freeze.changed.notify_waiters();
    }
}

impl Freeze {
    /// Claims the right to pause; [`Self::pause`] has to follow. Only for an instance without calls, under
    /// the pool's lock.
    pub(crate) fn begin_pause(&self) -> bool {
        self.state.compare_exchange(RUNNING, PAUSING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Pauses the instance. Dropped halfway, the instance counts as paused, and resuming it is harmless.
    pub(crate) async fn pause(&self, instance: &dyn Instance) {
        let _paused_then = Changing { freeze: self, then: PAUSED };
        instance.pause().await;
    }

    pub(crate) fn is_running(&self) -> bool {
        self.state.load(Ordering::Acquire) == RUNNING
    }

    /// Resumes the instance if it is paused or being paused.
    pub(crate) async fn resume(&self, instance: &dyn Instance) {
        while !self.is_running() {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registers for changes before looking at the state, so that none is missed.
            changed.as_mut().enable();
            match self.state.compare_exchange(PAUSED, RESUMING, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    let mut then = Changing { freeze: self, then: PAUSED };
                    instance.resume().await;
                    then.then = RUNNING;
                }
                Err(RUNNING) => return,
                Err(_) => changed.await,
            }
        }
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use std::{
        sync::{Arc, atomic::AtomicI32},
        time::Duration,
    };

    use async_trait::async_trait;
    use flint_executor::{Call, Invoked};
    use flint_model::{ByteSize, InstanceId};

    use super::*;

    /// Counts pauses minus resumes; each takes a second.
    #[derive(Default)]
    struct Slow(AtomicI32);

    #[async_trait]
    impl Instance for Slow {
        fn id(&self) -> InstanceId {
            InstanceId(1)
        }

        async fn invoke(&self, _: Call) -> Invoked {
            unreachable!()
        }

        async fn memory(&self) -> Option<ByteSize> {
            None
        }

        async fn pause(&self) {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.0.store(1, Ordering::Relaxed);
        }

        async fn resume(&self) {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.0.store(0, Ordering::Relaxed);
        }

        async fn ended(&self) {}

        async fn stop(&self) {}
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_come_during_a_pause_all_wait_until_the_instance_runs_again() {
        let (freeze, slow) = (Arc::new(Freeze::default()), Slow::default());
        assert!(freeze.begin_pause() && !freeze.begin_pause());
        let resumed = || async {
            freeze.resume(&slow).await;
            slow.0.load(Ordering::Relaxed)
        };
        let (_, a, b, c) = tokio::join!(freeze.pause(&slow), resumed(), resumed(), resumed());
        assert_eq!((a, b, c), (0, 0, 0));
        assert!(freeze.is_running());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_goes_away_while_it_resumes_leaves_that_to_the_next_one() {
        let (freeze, slow) = (Freeze::default(), Slow::default());
        freeze.begin_pause();
        freeze.pause(&slow).await;
        let half = tokio::time::timeout(Duration::from_millis(500), freeze.resume(&slow)).await;
        assert!(half.is_err() && !freeze.is_running());
        freeze.resume(&slow).await;
        assert!(freeze.is_running() && slow.0.load(Ordering::Relaxed) == 0);
    }
}
