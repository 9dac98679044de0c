//! Measures the throughput of calls with an instance each, and their CPU time.

use std::{net::SocketAddr, time::Duration};

use flint_lab::{
    ArmError, ArmReport, HttpArm, Latency, Load, Unjudged, drive, machine_cpu_us, median, process_cpu_us,
};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::{rounds::honour, unavailable, workload::Workload};
use crate::bench::run::Run;

/// Delay from the last response of a round to the probe, since instances end after their responses.
const AT_REST: Duration = Duration::from_millis(300);

/// A closed loop on one function.
pub(super) struct Rate {
    pub(super) arm: String,
    pub(super) function: &'static str,
    pub(super) concurrency: usize,
    http: Result<HttpArm, String>,
    rates: Vec<f64>,
    cpu_us: Vec<f64>,
    p50: Vec<f64>,
    p90: Vec<f64>,
    p99: Vec<f64>,
    calls: u64,
    /// Why it is not judged: the host was noisy in one of its rounds.
    pub(super) spoilt: Option<Unjudged>,
}

/// The measurements of one round.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Round {
    rate: f64,
    cpu_us: f64,
    quantiles: [f64; 3],
    calls: u64,
}

impl Rate {
    pub(super) fn new(
        arm: String,
        workload: &Workload,
        deployed: Result<(SocketAddr, String), String>,
        concurrency: usize,
    ) -> Self {
        let http = deployed
            .map(|(server, function)| HttpArm::new(server, vec![workload.request(server, &function)]));
        let function = workload.name;
        let none = Vec::new;
        Self {
            arm,
            function,
            concurrency,
            http,
            rates: none(),
            cpu_us: none(),
            p50: none(),
            p90: none(),
            p99: none(),
            calls: 0,
            spoilt: None,
        }
    }

    fn name(&self) -> String {
        format!("{} at {}", self.arm, self.concurrency)
    }

    /// The key of a failure.
    fn of_function(&self) -> String {
        format!("{} {}", self.name(), self.function)
    }

    /// The key of a round.
    fn key(&self, round: usize) -> String {
        format!("{} round {round}", self.of_function())
    }

    /// One round. Clones end without being waited for, so the kernel reports their CPU time to nobody: that
    /// of the whole machine is taken, without the load generator's. On a machine with other activity this is
    /// too much.
    async fn round(&self, duration: Duration) -> Result<Option<Round>, ArmError> {
        let Ok(http) = &self.http else { return Ok(None) };
        let own = std::process::id();
        let used = || machine_cpu_us().saturating_sub(process_cpu_us(own));
        let load = Load { concurrency: self.concurrency, duration, warm_up: 2 };
        let before = used();
        let measured = drive(http, load).await?;
        let used = used().saturating_sub(before);
        let calls = measured.calls + (load.concurrency * load.warm_up) as u64;
        Ok(Some(Round {
            rate: measured.rate(),
            cpu_us: used as f64 / calls.max(1) as f64,
            quantiles: [0.5, 0.9, 0.99].map(|q| measured.quantile_us(q)),
            calls: measured.calls,
        }))
    }

    fn take(&mut self, round: Round) {
        self.rates.push(round.rate);
        self.cpu_us.push(round.cpu_us);
        self.p50.push(round.quantiles[0]);
        self.p90.push(round.quantiles[1]);
        self.p99.push(round.quantiles[2]);
        self.calls += round.calls;
    }

    pub(super) fn calls_per_s(&self) -> Option<f64> {
        median(&self.rates).filter(|_| self.http.is_ok())
    }

    /// Calls per second of CPU time.
    pub(super) fn calls_per_cpu_s(&self) -> Option<f64> {
        median(&self.cpu_us).filter(|us| *us > 0.0 && self.http.is_ok()).map(|us| 1e6 / us)
    }

    pub(super) fn report(&self) -> ArmReport {
        if let Err(why) = &self.http {
            return unavailable(&self.arm, self.function, Some(self.concurrency), why);
        }
        let latency = median(&self.p50).zip(median(&self.p90)).zip(median(&self.p99));
        ArmReport {
            arm: self.arm.clone(),
            function: Some(self.function.to_owned()),
            concurrency: Some(self.concurrency),
            n: (self.calls > 0).then_some(self.calls),
            latency_us: latency.map(|((p50, p90), p99)| Latency { p50, p90, p99 }),
            calls_per_s: self.calls_per_s(),
            cpu_us_per_call: median(&self.cpu_us),
            ..ArmReport::default()
        }
    }
}

/// The key of the probes around a round of all of them.
fn part(round: usize) -> String {
    format!("closed loops round {round}")
}

/// Drives all of them in turn, after an uncounted round, with a probe before each round and after the last.
/// Rounds of an earlier start of the run are not repeated.
pub(super) async fn run(
    rates: &mut [Rate],
    rounds: usize,
    duration: Duration,
    run: &mut Run,
    progress: &dyn Fn(&str, usize, usize),
) -> anyhow::Result<()> {
    let count = rates.len();
    if count == 0 {
        return Ok(());
    }
    for rate in rates.iter_mut() {
        let is_kept = (1..=rounds).all(|round| run.folder.has(&rate.key(round)));
        honour(&run.folder, &rate.of_function(), &mut rate.http, is_kept)?;
    }
    for round in 0..=rounds {
        if round > 0 {
            sleep(AT_REST).await;
            let open = rates.iter().filter(|rate| rate.http.is_ok());
            run.look(&part(round), open.map(|rate| rate.key(round))).await?;
        }
        for (at, rate) in rates.iter_mut().enumerate() {
            progress(&rate.name(), round * count + at, (rounds + 1) * count);
            let key = rate.key(round);
            if let Some(kept) = run.folder.get::<Round>(&key) {
                rate.take(kept);
                continue;
            }
            match rate.round(duration).await {
                Err(error) => {
                    run.folder.fail(&rate.of_function(), &error.to_string())?;
                    rate.http = Err(error.to_string());
                }
                Ok(Some(measured)) if round > 0 => {
                    run.folder.put(&key, &measured)?;
                    rate.take(measured);
                }
                Ok(_) => {}
            }
        }
    }
    sleep(AT_REST).await;
    run.noise.end().await?;
    let spoilt = (1..=rounds).find_map(|round| run.noise.spoilt(&part(round)));
    for rate in rates {
        rate.spoilt = spoilt.as_ref().map(|why| Unjudged::Noise(format!("closed loops: {why}")));
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::bench::{Effort, Size, bare_http, coldstart::workload};

    /// A loop with this CPU time per call.
    pub(in crate::bench::coldstart) fn rate(arm: &str, cpu_us: f64, spoilt: Option<Unjudged>) -> Rate {
        let empty = workload::all(workload::Sizes::QUICK, None).remove(0);
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut rate = Rate::new(arm.to_owned(), &empty, Ok((nowhere, "f".into())), 1);
        rate.take(Round { rate: 1.0, cpu_us, quantiles: [1.0; 3], calls: 1 });
        Rate { spoilt, ..rate }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_host_is_looked_at_before_each_round_and_after_the_last() {
        let scratch = tempfile::tempdir().unwrap();
        let effort = Effort {
            quick: true,
            size: Size::Small,
            arms: Vec::new(),
            repeat: None,
            seed: 1,
            set: Default::default(),
            out: Some(scratch.path().join("run")),
            despite_noise: false,
        };
        let empty = workload::all(workload::Sizes::QUICK, None).remove(0);
        let server = bare_http::start(b"{}").unwrap();
        // A restart of the run finds everything measured and probed.
        for _ in 0..2 {
            let mut bench = Run::begin("coldstart", effort.clone()).unwrap();
            let mut rates = [Rate::new("rate-fork-never".into(), &empty, Ok((server, "f".into())), 1)];
            run(&mut rates, 2, Duration::from_millis(20), &mut bench, &|_, _, _| {}).await.unwrap();
            assert_eq!((rates[0].rates.len(), bench.noise.noise().looks), (2, 3));
        }
    }
}
