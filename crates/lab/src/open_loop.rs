//! Open-loop load: calls start by the schedule, whatever becomes of earlier ones.
//!
//! Latency counts from a call's *intended* start. A generator that waits for a response before it sends the
//! next call, and counts from the sending, leaves out precisely the calls that would have met a slow moment
//! (coordinated omission). Here a call that finds all connections busy waits, and its wait is part of its
//! latency, as for the user who made it.

use std::{sync::Arc, time::Duration};

use hdrhistogram::Histogram;
use tokio::{
    sync::{Semaphore, mpsc},
    time::{Instant, timeout},
};

use crate::{Arm, ArmError, Arrival, Arrivals, Connection, Failures, closed_loop::histogram, pacer::Pacer};

/// The load.
#[derive(Clone, Debug)]
pub struct OpenLoad {
    /// The schedule.
    pub arrivals: Arrivals,
    /// Only calls intended before this time are made.
    pub duration: Duration,
    /// Calls intended before this time are made but not counted; part of `duration`.
    pub warm_up: Duration,
    /// Maximum number of connections. Calls beyond them wait, without taking memory.
    pub connections: usize,
    /// Time limit of a response, and how long after the end overdue calls may still be made.
    pub timeout: Duration,
}

/// The result.
#[derive(Clone, Debug)]
pub struct OpenMeasured {
    /// Calls that were scheduled, without the warm-up.
    pub intended: u64,
    /// From the intended start of an answered call to the end of its response, in ns.
    pub latency_ns: Histogram<u64>,
    /// From its sending, in ns: the arm's own time, without the wait it caused for others.
    pub service_ns: Histogram<u64>,
    /// Delay of the sending, in ns: because of the generator, or because all connections were busy.
    pub late_ns: Histogram<u64>,
    /// Calls without a correct response; they are in no histogram.
    pub failures: Failures,
    /// From the end of the warm-up to the end of the load, or to the last response if later.
    pub wall: Duration,
    /// Connections that were opened.
    pub connections: usize,
}

impl OpenMeasured {
    /// Correctly answered calls.
    pub fn answered(&self) -> u64 {
        self.latency_ns.len()
    }

    /// Correctly answered calls per second.
    pub fn rate(&self) -> f64 {
        self.answered() as f64 / self.wall.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// A quantile of the latency in µs.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        self.latency_ns.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// A call that has ended.
struct Ended {
    counted: bool,
    latency: Duration,
    service: Duration,
    late: Duration,
    result: Result<(), ArmError>,
    /// For reuse; `None` if it failed.
    connection: Option<Box<dyn Connection>>,
    opened: bool,
}

/// Drives `arm` with the load. Failed calls are counted by kind; only a failure of the generator itself is an
/// error.
pub async fn drive_open(arm: Arc<dyn Arm>, load: &OpenLoad) -> Result<OpenMeasured, ArmError> {
    drive_paced(arm, load, &mut Pacer::thread()?).await
}

async fn drive_paced(
    arm: Arc<dyn Arm>,
    load: &OpenLoad,
    pacer: &mut Pacer,
) -> Result<OpenMeasured, ArmError> {
    let free = Arc::new(Semaphore::new(load.connections.max(1)));
    // As many calls can end at once as there are connections, so that sending never blocks.
    let (ended, mut news) = mpsc::channel::<Ended>(load.connections.max(1));
    let mut gathered = Gathered::new();
    // A stack: the connection used last is reused first, and the others stay idle, as under a lighter load.
    let mut idle: Vec<Box<dyn Connection>> = Vec::new();
    let begin = Instant::now();
    let give_up = begin + load.duration + load.timeout;
    let mut arrivals = load.arrivals.until(load.duration);
    let mut unsent = 0;

    for arrival in arrivals.by_ref() {
        let intended = begin + arrival.at;
        pacer.until(intended).await?;
        let permit = tokio::select! {
            permit = Arc::clone(&free).acquire_owned() => permit.ok(),
            () = tokio::time::sleep_until(give_up) => None,
        };
        while let Ok(one) = news.try_recv() {
            gathered.add(one, &mut idle);
        }
        let counted = arrival.at >= load.warm_up;
        let Some(permit) = permit.filter(|_| Instant::now() < give_up) else {
            unsent += u64::from(counted);
            break;
        };
        gathered.intended += u64::from(counted);
        let call =
            Call { arm: Arc::clone(&arm), connection: idle.pop(), arrival, intended, limit: load.timeout };
        let ended = ended.clone();
        tokio::spawn(async move {
            let one = call.run(counted).await;
            // The receiver is gone only if the measurement was cancelled.
            let _ = ended.send(one).await;
            drop(permit);
        });
    }
    unsent += arrivals.filter(|arrival| arrival.at >= load.warm_up).count() as u64;
    drop(ended);
    while let Some(one) = news.recv().await {
        gathered.add(one, &mut idle);
    }
    gathered.intended += unsent;
    if unsent > 0 {
        let why = "all connections were taken until the time was over: the arm does not keep up";
        gathered.failures.add_many("unsent", unsent, why);
    }
    // The gap after the last call is part of the load, although nothing is sent at its end.
    let wall = begin.elapsed().max(load.duration).saturating_sub(load.warm_up);
    Ok(gathered.finish(wall))
}

struct Call {
    arm: Arc<dyn Arm>,
    connection: Option<Box<dyn Connection>>,
    arrival: Arrival,
    intended: Instant,
    limit: Duration,
}

impl Call {
    async fn run(self, counted: bool) -> Ended {
        let sent = Instant::now();
        let opened = self.connection.is_none();
        let call = async {
            let mut connection = match self.connection {
                Some(connection) => connection,
                None => self.arm.connect().await?,
            };
            connection.call_meant(self.arrival.which, self.intended.into_std()).await?;
            Ok(connection)
        };
        let result = timeout(self.limit, call).await.unwrap_or(Err(ArmError::Timeout(self.limit)));
        let now = Instant::now();
        let (connection, result) = match result {
            Ok(connection) => (Some(connection), Ok(())),
            Err(error) => (None, Err(error)),
        };
        Ended {
            counted,
            latency: now - self.intended,
            service: now - sent,
            late: sent - self.intended,
            result,
            connection,
            opened,
        }
    }
}

struct Gathered {
    intended: u64,
    latency_ns: Histogram<u64>,
    service_ns: Histogram<u64>,
    late_ns: Histogram<u64>,
    failures: Failures,
    connections: usize,
}

impl Gathered {
    fn new() -> Self {
        Self {
            intended: 0,
            latency_ns: histogram(),
            service_ns: histogram(),
            late_ns: histogram(),
            failures: Failures::default(),
            connections: 0,
        }
    }

    fn add(&mut self, one: Ended, idle: &mut Vec<Box<dyn Connection>>) {
        idle.extend(one.connection);
        self.connections += usize::from(one.opened);
        if !one.counted {
            return;
        }
        let record = |into: &mut Histogram<u64>, took: Duration| {
            into.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        };
        record(&mut self.late_ns, one.late);
        match one.result {
            Err(error) => self.failures.add(&error),
            Ok(()) => {
                record(&mut self.latency_ns, one.latency);
                record(&mut self.service_ns, one.service);
            }
        }
    }

    fn finish(self, wall: Duration) -> OpenMeasured {
        OpenMeasured {
            intended: self.intended,
            latency_ns: self.latency_ns,
            service_ns: self.service_ns,
            late_ns: self.late_ns,
            failures: self.failures,
            wall,
            connections: self.connections,
        }
    }
}

#[cfg(test)]
#[path = "open_loop/tests.rs"]
mod tests;
