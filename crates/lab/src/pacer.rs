//! Waits for a point in time, more precisely than the runtime's timers, whose resolution of a millisecond
//! exceeds the duration of many calls.

use std::sync::mpsc;

use tokio::{sync::mpsc as asynchronous, time::Instant};

/// How the generator waits.
pub(crate) enum Pacer {
    /// A thread of its own, which sleeps by the kernel's timers, accurate to some 50 µs, without spinning on
    /// a processor that the arm could use. It ends with its sender.
    Thread { ask: mpsc::Sender<Instant>, told: asynchronous::Receiver<()> },
    /// The runtime's timers, as a paused clock requires.
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
                // The receiver is gone if the generator was cancelled.
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
