//! Waiting for a point in time. The runtime's own timers are whole milliseconds, which is longer than many calls take.

use std::sync::mpsc;

use tokio::{sync::mpsc as asynchronous, time::Instant};

/// How the generator waits.
pub(crate) enum Pacer {
    /// On a thread of its own that sleeps by the kernel's timers, some 50 µs exact, without spinning on a processor that the arm could
    /// use. The thread ends with its sender.
    Thread { ask: mpsc::Sender<Instant>, told: asynchronous::Receiver<()> },
    /// By the runtime's timers; what a paused clock needs.
    #[cfg(test)]
    Runtime,
}

impl Pacer {
    pub(crate) fn thread() -> std::io::Result<Self> {
        let (ask, asked) = mpsc::channel::<Instant>();
        let (tell, told) = asynchronous::channel(1);
        std::thread::Builder::new().name("pacer".into()).spawn(move || {
            for at in asked {
                std::thread::sleep(at.saturating_duration_since(Instant::now()));
                // The generator is gone when it was cancelled.
                let _ = tell.blocking_send(());
            }
        })?;
        Ok(Self::Thread { ask, told })
    }

    pub(crate) async fn until(&mut self, at: Instant) -> std::io::Result<()> {
        match self {
            Self::Thread { ask, told } => {
                if at <= Instant::now() {
                    return Ok(());
                }
                let ended = || std::io::Error::other("the thread that keeps time has ended");
                ask.send(at).map_err(|_| ended())?;
                told.recv().await.ok_or_else(ended)
            }
            #[cfg(test)]
            Self::Runtime => {
                tokio::time::sleep_until(at).await;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn nothing_happens_before_its_time() {
        let mut pacer = Pacer::thread().unwrap();
        for micros in [0, 300, 5_000] {
            let at = Instant::now() + Duration::from_micros(micros);
            pacer.until(at).await.unwrap();
            assert!(Instant::now() >= at);
        }
    }
}
