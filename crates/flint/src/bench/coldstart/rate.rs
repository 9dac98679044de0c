//! How many calls with an instance of their own are served a second, and what CPU time each costs.

use std::{net::SocketAddr, time::Duration};

use flint_lab::{
    ArmError, ArmReport, HttpArm, Latency, Load, RunFolder, drive, machine_cpu_us, median, process_cpu_us,
};
use serde::{Deserialize, Serialize};

use super::{unavailable, workload::Workload};

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
}

/// What one round measured.
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
        }
    }

    /// One round of it. Clones end without being waited for, so the kernel tells nobody what they used: what the whole machine used
    /// is taken, without the load generator's own share. On a machine that does something else besides, that is too much.
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

    /// How many one second of CPU time is enough for.
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

/// Drives all of them in turn, after one round that is not counted. What `folder` has is not measured again.
pub(super) async fn run(
    rates: &mut [Rate],
    rounds: usize,
    duration: Duration,
    folder: &RunFolder,
    progress: &dyn Fn(&str, usize, usize),
) -> anyhow::Result<()> {
    let count = rates.len();
    for round in 0..=rounds {
        for (at, rate) in rates.iter_mut().enumerate() {
            let name = format!("{} at {}", rate.arm, rate.concurrency);
            progress(&name, round * count + at, (rounds + 1) * count);
            let key = format!("{name} {} round {round}", rate.function);
            if let Some(kept) = folder.get::<Round>(&key) {
                rate.take(kept);
                continue;
            }
            match rate.round(duration).await {
                Err(error) => rate.http = Err(error.to_string()),
                Ok(Some(measured)) if round > 0 => {
                    folder.put(&key, &measured)?;
                    rate.take(measured);
                }
                Ok(_) => {}
            }
        }
    }
    Ok(())
}
