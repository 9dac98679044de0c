//! Arms in turn: A B C, A B C, …, so that what the machine does meanwhile meets all of them alike.

use std::time::Duration;

use crate::{Arm, ArmError, Load, Measured, ProcessTree, drive, median};

/// An arm and how it is driven.
pub struct ArmPlan {
    /// Its name in the report.
    pub name: String,
    /// The function it calls, where it calls one.
    pub function: Option<String>,
    /// What is driven.
    pub arm: Box<dyn Arm>,
    /// How.
    pub load: Load,
    /// Whose CPU time is charged to it; `None` = not measured.
    pub process: Option<ProcessTree>,
}

/// What an arm did in each round.
pub struct ArmRounds {
    /// Its plan.
    pub plan: ArmPlan,
    /// A measurement a round.
    pub rounds: Vec<Measured>,
    /// CPU time per call in each round, in µs.
    pub cpu_us_per_call: Vec<f64>,
}

impl ArmRounds {
    /// Calls per second, a figure a round.
    pub fn rates(&self) -> Vec<f64> {
        self.rounds.iter().map(Measured::rate).collect()
    }

    /// A quantile of the latency in µs, a figure a round.
    pub fn quantiles_us(&self, quantile: f64) -> Vec<f64> {
        self.rounds.iter().map(|round| round.quantile_us(quantile)).collect()
    }

    /// The median over the rounds of a quantile in µs.
    pub fn quantile_us(&self, quantile: f64) -> Option<f64> {
        median(&self.quantiles_us(quantile))
    }
}

/// Drives every arm once a round, after one round that is not counted: just-in-time compilers and caches are warm then. `progress` is told before each step what comes and how many steps are done of how many.
pub async fn run_rounds(
    plans: Vec<ArmPlan>,
    rounds: usize,
    pause: Duration,
    progress: &dyn Fn(&str, usize, usize),
) -> Result<Vec<ArmRounds>, ArmError> {
    let steps = plans.len() * (rounds + 1);
    let mut arms: Vec<ArmRounds> = plans
        .into_iter()
        .map(|plan| ArmRounds { plan, rounds: Vec::new(), cpu_us_per_call: Vec::new() })
        .collect();
    for round in 0..=rounds {
        for at in 0..arms.len() {
            let count = arms.len();
            let arm = &mut arms[at];
            progress(&arm.plan.name, round * count + at, steps);
            if round == 0 {
                drive(arm.plan.arm.as_ref(), arm.plan.load).await?;
                arm.plan.arm.settle().await?;
                continue;
            }
            let cpu_before = arm.plan.process.map(|process| process.cpu_us());
            let measured = drive(arm.plan.arm.as_ref(), arm.plan.load).await?;
            if let (Some(process), Some(before)) = (arm.plan.process, cpu_before) {
                let used = process.cpu_us().saturating_sub(before);
                // The uncounted warm-up calls are in the CPU time too; they are few beside the counted ones.
                let calls = measured.calls + (arm.plan.load.concurrency * arm.plan.load.warm_up) as u64;
                arm.cpu_us_per_call.push(used as f64 / calls.max(1) as f64);
            }
            arm.rounds.push(measured);
            arm.plan.arm.settle().await?;
            tokio::time::sleep(pause).await;
        }
    }
    Ok(arms)
}
