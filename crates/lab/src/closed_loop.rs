//! Closed-loop load: each of n connections sends its next call when the last one is answered. It measures an
//! arm's capacity, but not latency under a given load, since a slow arm slows its callers down.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::{task::JoinSet, time::timeout};

use crate::{Arm, ArmError};

/// The load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Connections at once.
    pub concurrency: usize,
    /// Duration, after every connection is warmed up.
    pub duration: Duration,
    /// Uncounted calls per connection.
    pub warm_up: usize,
}

/// The result.
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

/// Drives `arm` with `load`. One wrong response fails the whole measurement: a fast error is not a fast call.
/// So does a call that takes longer than a histogram can record.
pub async fn drive(arm: &dyn Arm, load: Load) -> Result<Measured, ArmError> {
    drive_within(arm, load, Duration::from_nanos(LONGEST_NS)).await
}

/// The same with a time limit per response.
pub async fn drive_within(arm: &dyn Arm, load: Load, limit: Duration) -> Result<Measured, ArmError> {
    let mut connections = Vec::with_capacity(load.concurrency);
    for _ in 0..load.concurrency {
        connections.push(within(limit, arm.connect()).await?);
    }
    let mut warming = JoinSet::new();
    for mut connection in connections {
        warming.spawn(async move {
            for _ in 0..load.warm_up {
                within(limit, connection.call()).await?;
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
            // A connection that gets its turn only after the end makes one call all the same: without calls
            // there are no figures.
            loop {
                connection.call().await?;
                let answered = Instant::now();
                let took = answered - sent;
                if took > limit {
                    return Err(ArmError::Timeout(limit));
                }
                latencies.saturating_record(took.as_nanos() as u64);
                sent = answered;
                if sent >= end {
                    return Ok::<_, ArmError>((latencies, sent));
                }
            }
        });
    }
    let answers = async {
        let mut callers = Vec::with_capacity(load.concurrency);
        while let Some(caller) = loops.join_next().await {
            callers.push(flatten(caller)?);
        }
        Ok::<_, ArmError>(callers)
    };
    // One timer for all: a timer per call would disturb the measurement. It fires later, but it fires.
    let last = load.duration.saturating_add(limit);
    let callers = timeout(last, answers).await.unwrap_or(Err(ArmError::Timeout(limit)))?;
    Ok(together(begin, callers))
}

async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, ArmError>>) -> Result<T, ArmError> {
    timeout(limit, work).await.unwrap_or(Err(ArmError::Timeout(limit)))
}

/// Merges the callers' measurements, each with the time of its last response. Merging thousands of histograms
/// takes a fraction of a second that must not count for the arm.
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

    /// Answers a given number of times, and then no more.
    struct Stops(usize);

    #[async_trait]
    impl Arm for Stops {
        async fn connect(&self) -> Result<Box<dyn Connection>, ArmError> {
            Ok(Box::new(Stops(self.0)))
        }
    }

    #[async_trait]
    impl Connection for Stops {
        async fn call(&mut self) -> Result<(), ArmError> {
            let Some(left) = self.0.checked_sub(1) else { return std::future::pending().await };
            self.0 = left;
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_does_not_come_is_not_waited_for_without_end() {
        let limit = Duration::from_secs(1);
        // During the warm-up, and during the counted part.
        for answers in [1, 3] {
            let load = Load { concurrency: 2, duration: Duration::from_secs(5), warm_up: 2 };
            let ended = drive_within(&Stops(answers), load, limit).await;
            assert!(matches!(&ended, Err(ArmError::Timeout(told)) if *told == limit), "{ended:?}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_comes_too_late_is_no_measurement() {
        let load = Load { concurrency: 1, duration: Duration::from_secs(5), warm_up: 0 };
        let ended = drive_within(&Sleeps(Duration::from_millis(20)), load, Duration::from_millis(1)).await;
        assert!(matches!(&ended, Err(ArmError::Timeout(_))), "{ended:?}");
    }

    #[tokio::test]
    async fn a_load_that_was_over_before_it_began_has_a_call_of_each_caller() {
        let load = Load { concurrency: 2, duration: Duration::ZERO, warm_up: 0 };
        let measured = drive(&Sleeps(Duration::from_millis(1)), load).await.unwrap();
        assert_eq!(measured.calls, 2);
        assert!(measured.rate() > 0.0 && measured.rate().is_finite(), "{}", measured.rate());
    }

    #[tokio::test]
    async fn a_wrong_answer_is_no_measurement() {
        let load = Load { concurrency: 2, duration: Duration::from_millis(10), warm_up: 0 };
        assert!(drive(&Wrong, load).await.is_err());
    }
}
