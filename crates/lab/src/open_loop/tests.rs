//! Tests the generator against servers whose users' experience is known. The clock is the runtime's paused
//! one, so nothing depends on this machine's speed.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::time::sleep_until;

use super::*;
use crate::{Load, drive};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Answers within a millisecond, but stalls in the first second of every ten.
#[derive(Clone)]
struct Stalls {
    begin: Instant,
    connections: Arc<AtomicUsize>,
}

impl Stalls {
    fn new() -> Self {
        Self { begin: Instant::now(), connections: Arc::default() }
    }
}

#[async_trait]
impl Arm for Stalls {
    async fn connect(&self) -> Result<Box<dyn Connection>, ArmError> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl Connection for Stalls {
    async fn call(&mut self) -> Result<(), ArmError> {
        let since = self.begin.elapsed();
        let period = Duration::from_secs(since.as_secs() / 10 * 10);
        if since - period < SECOND {
            sleep_until(self.begin + period + SECOND).await;
        }
        tokio::time::sleep(MS).await;
        Ok(())
    }
}

fn load(connections: usize) -> OpenLoad {
    OpenLoad {
        arrivals: Arrivals::Constant { rate: 100.0 },
        duration: 60 * SECOND,
        warm_up: Duration::ZERO,
        connections,
        timeout: 30 * SECOND,
    }
}

async fn open(arm: impl Arm + 'static, load: &OpenLoad) -> OpenMeasured {
    drive_paced(Arc::new(arm), load, &mut Pacer::Runtime).await.unwrap()
}

/// 100 calls a second: one in ten meets the stall and waits for the rest of its second, uniformly up to 1 s.
/// So 5 % wait longer than 500 ms, and 1 % longer than 900 ms.
#[tokio::test(start_paused = true)]
async fn a_server_that_stalls_is_seen_as_its_users_see_it() {
    let measured = open(Stalls::new(), &load(256)).await;
    assert_eq!((measured.intended, measured.answered()), (6000, 6000));
    let ms = |q| measured.quantile_us(q) / 1e3;
    assert!((480.0..520.0).contains(&ms(0.95)), "p95 {}", ms(0.95));
    assert!((890.0..920.0).contains(&ms(0.99)), "p99 {}", ms(0.99));
    assert!(ms(0.5) < 10.0 && (1000.0..1010.0).contains(&ms(1.0)), "p50 {} max {}", ms(0.5), ms(1.0));

    // A closed loop hides this: it sends one call into each stall, and reports that all is well.
    let load = Load { concurrency: 1, duration: Duration::ZERO, warm_up: 0 };
    drive(&Stalls::new(), load).await.unwrap();
    let arm = Stalls::new();
    let (mut connection, mut naive) = (arm.connect().await.unwrap(), histogram());
    while arm.begin.elapsed() < 60 * SECOND {
        let sent = Instant::now();
        connection.call().await.unwrap();
        naive.saturating_record(sent.elapsed().as_nanos() as u64);
        tokio::time::sleep(9 * MS).await;
    }
    assert!(naive.value_at_quantile(0.99) < 10_000_000, "{}", naive.value_at_quantile(0.99));
}

/// With two connections, almost all calls of a stall wait in the generator: the wait is theirs all the same.
#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_a_connection_count_from_when_they_were_meant() {
    let arm = Stalls::new();
    let connections = Arc::clone(&arm.connections);
    let measured = open(arm, &load(2)).await;
    assert_eq!((measured.answered(), measured.failures.calls()), (6000, 0));
    assert_eq!((connections.load(Ordering::Relaxed), measured.connections), (2, 2));
    assert!(measured.quantile_us(0.95) > 480_000.0, "{}", measured.quantile_us(0.95));
    // The arm itself was quick with all but a few of them, and the report shows the difference.
    assert!(measured.service_ns.value_at_quantile(0.99) < 10_000_000);
    assert!(measured.late_ns.value_at_quantile(0.99) > 800_000_000);
}

/// Takes longer than the time limit.
struct Slow;

#[async_trait]
impl Arm for Slow {
    async fn connect(&self) -> Result<Box<dyn Connection>, ArmError> {
        Ok(Box::new(Self))
    }
}

#[async_trait]
impl Connection for Slow {
    async fn call(&mut self) -> Result<(), ArmError> {
        tokio::time::sleep(2 * SECOND).await;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn an_arm_that_does_not_keep_up_is_told_call_by_call() {
    let overload = OpenLoad {
        arrivals: Arrivals::Constant { rate: 10.0 },
        duration: 10 * SECOND,
        warm_up: SECOND,
        connections: 4,
        timeout: 5 * SECOND,
    };
    let measured = open(Slow, &overload).await;
    let unsent = measured.failures.kinds().find(|(kind, _)| *kind == "unsent").unwrap().1.calls;
    assert_eq!(measured.intended, 90);
    assert_eq!(measured.answered() + unsent, 90);
    // 4 connections, one call each every 2 s for 15 s, without those of the warm-up.
    assert!((20..=30).contains(&measured.answered()), "{}", measured.answered());

    let impatient = OpenLoad { timeout: SECOND, connections: 1000, ..overload };
    let measured = open(Slow, &impatient).await;
    let kinds: Vec<_> = measured.failures.kinds().map(|(kind, failed)| (kind, failed.calls)).collect();
    assert_eq!((measured.answered(), kinds), (0, vec![("timeout", 90)]));
}

/// Fails every third call and refuses every other connection.
struct Fails(Arc<AtomicUsize>);

#[async_trait]
impl Arm for Fails {
    async fn connect(&self) -> Result<Box<dyn Connection>, ArmError> {
        match self.0.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => Ok(Box::new(Self(Arc::default()))),
            _ => Err(ArmError::Connect { to: "nowhere".into(), detail: "refused".into() }),
        }
    }
}

#[async_trait]
impl Connection for Fails {
    async fn call(&mut self) -> Result<(), ArmError> {
        match self.0.fetch_add(1, Ordering::Relaxed) % 3 {
            2 => Err(ArmError::Status { status: 503, expected: 200, body: "busy".into() }),
            _ => Ok(()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn failures_are_counted_by_kind_and_their_connections_replaced() {
    let load = OpenLoad { duration: 4 * SECOND, connections: 1, ..load(1) };
    let measured = open(Fails(Arc::default()), &load).await;
    let kinds: Vec<_> = measured.failures.kinds().map(|(kind, failed)| (kind, failed.calls)).collect();
    // Two calls, a 503, a refused connection, and again.
    assert_eq!((measured.answered(), kinds), (200, vec![("connect", 100), ("status 503", 100)]));
}

#[tokio::test(start_paused = true)]
async fn a_trace_says_what_is_called() {
    struct Notes(Arc<std::sync::Mutex<Vec<usize>>>);
    #[async_trait]
    impl Arm for Notes {
        async fn connect(&self) -> Result<Box<dyn Connection>, ArmError> {
            Ok(Box::new(Self(Arc::clone(&self.0))))
        }
    }
    #[async_trait]
    impl Connection for Notes {
        async fn call(&mut self) -> Result<(), ArmError> {
            Err(ArmError::WrongAnswer("a trace says which".into()))
        }
        async fn call_which(&mut self, which: usize) -> Result<(), ArmError> {
            self.0.lock().unwrap().push(which);
            Ok(())
        }
    }
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let trace = [(0, 7), (10, 3), (20, 7)];
    let trace: Vec<_> = trace.map(|(ms, which)| Arrival { at: ms * MS, which }).into();
    let load = OpenLoad { arrivals: Arrivals::Trace(trace.into()), ..load(4) };
    assert_eq!(open(Notes(Arc::clone(&seen)), &load).await.answered(), 3);
    assert_eq!(*seen.lock().unwrap(), [7, 3, 7]);
}
