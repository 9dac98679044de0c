//! A closed loop: each of n connections sends its next call when the last one is answered. It finds how much an arm
//! can do; it says nothing of latency under a given load, since a slow arm slows its callers down.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use crate::{Arm, ArmError};

/// How an arm is driven.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Connections at once.
    pub concurrency: usize,
    /// For how long, after every connection has been warmed.
    pub duration: Duration,
    /// Calls of each connection that are not counted.
    pub warm_up: usize,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Calls answered.
    pub calls: u64,
    /// Wall time they took.
    pub wall: Duration,
    /// Their latencies, in ns.
    pub latency_ns: Histogram<u64>,
}

impl Measured {
    /// Calls per second.
    pub fn rate(&self) -> f64 {
        self.calls as f64 / self.wall.as_secs_f64()
    }

    /// A quantile of the latency in µs.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        self.latency_ns.value_at_quantile(quantile) as f64 / 1e3
    }
}

const LONGEST_NS: u64 = 600 * 1_000_000_000;

pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("1 ns to 10 min with 3 digits is a valid histogram")
}

/// Drives `arm` with `load`. One wrong answer makes the whole measurement fail: a fast error is not a fast call.
pub async fn drive(arm: &dyn Arm, load: Load) -> Result<Measured, ArmError> {
    let mut connections = Vec::with_capacity(load.concurrency);
    for _ in 0..load.concurrency {
        connections.push(arm.connect().await?);
    }
    let mut warming = JoinSet::new();
    for mut connection in connections {
        warming.spawn(async move {
            for _ in 0..load.warm_up {
                connection.call().await?;
            }
            Ok::<_, ArmError>(connection)
        });
    }
    let mut warm = Vec::with_capacity(load.concurrency);
    while let Some(connection) = warming.join_next().await {
        warm.push(flatten(connection)?);
    }

    let begin = Instant::now();
    let end = begin + load.duration;
    let mut loops = JoinSet::new();
    for mut connection in warm {
        loops.spawn(async move {
            let mut latencies = histogram();
            let mut sent = Instant::now();
            while sent < end {
                connection.call().await?;
                let answered = Instant::now();
                latencies.saturating_record((answered - sent).as_nanos() as u64);
                sent = answered;
            }
            Ok::<_, ArmError>((latencies, sent))
        });
    }
    let mut callers = Vec::with_capacity(load.concurrency);
    while let Some(caller) = loops.join_next().await {
        callers.push(flatten(caller)?);
    }
    Ok(together(begin, callers))
}

/// What the callers measured, each with when its last call was answered. Adding up thousands of histograms takes a part of a second, which is none of the arm's.
fn together(begin: Instant, callers: Vec<(Histogram<u64>, Instant)>) -> Measured {
    let last = callers.iter().map(|(_, answered)| *answered).max().unwrap_or(begin);
    let mut latency_ns = histogram();
    for (latencies, _) in callers {
        latency_ns.add(latencies).expect("both histograms have the same bounds");
    }
    Measured { calls: latency_ns.len(), wall: last - begin, latency_ns }
}

fn flatten<T>(joined: Result<Result<T, ArmError>, tokio::task::JoinError>) -> Result<T, ArmError> {
    joined.unwrap_or_else(|error| Err(ArmError::WrongAnswer(format!("the load generator failed: {error}"))))
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::Connection;

    struct Sleeps(Duration);

    #[async_trait]
    impl Arm for Sleeps {
        async fn connect(&self) -> Result<Box<dyn Connection>, ArmError> {
            Ok(Box::new(Sleeps(self.0)))
        }
    }

    #[async_trait]
    impl Connection for Sleeps {
        async fn call(&mut self) -> Result<(), ArmError> {
            std::thread::sleep(self.0);
            Ok(())
        }
    }

    struct Wrong;

    #[async_trait]
    impl Arm for Wrong {
        async fn connect(&self) -> Result<Box<dyn Connection>, ArmError> {
            Ok(Box::new(Wrong))
        }
    }

    #[async_trait]
    impl Connection for Wrong {
        async fn call(&mut self) -> Result<(), ArmError> {
            Err(ArmError::WrongAnswer("no".into()))
        }
    }

    #[tokio::test]
    async fn a_call_that_sleeps_is_seen_to_take_that_long() {
        let load = Load { concurrency: 1, duration: Duration::from_millis(60), warm_up: 1 };
        let measured = drive(&Sleeps(Duration::from_millis(5)), load).await.unwrap();
        assert!(measured.quantile_us(0.5) >= 5_000.0, "{}", measured.quantile_us(0.5));
        assert!(measured.calls >= 1 && measured.rate() <= 200.0, "{}", measured.rate());
    }

    #[test]
    fn a_load_is_over_with_its_last_answer_however_long_the_adding_up_takes() {
        let begin = Instant::now();
        let caller = |seconds| {
            let mut latencies = histogram();
            latencies.saturating_record(1000);
            (latencies, begin + Duration::from_secs(seconds))
        };
        let measured = together(begin, vec![caller(1), caller(3), caller(2)]);
        assert_eq!((measured.calls, measured.wall), (3, Duration::from_secs(3)));
    }

    #[tokio::test]
    async fn a_wrong_answer_is_no_measurement() {
        let load = Load { concurrency: 2, duration: Duration::from_millis(10), warm_up: 0 };
        assert!(drive(&Wrong, load).await.is_err());
    }
}
