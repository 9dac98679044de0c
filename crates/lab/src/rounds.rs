//! Arms in turn: A B C, A B C, …, so that what the machine does meanwhile meets all of them alike.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    Arm, ArmError, Load, Measured, NoiseWatch, ProcessTree, RunFolder, closed_loop::histogram, drive, median,
};

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

/// A round as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    calls: u64,
    wall: Duration,
    /// Latencies in ns, as they were counted: value and how often.
    latency: Vec<(u64, u64)>,
    cpu_us_per_call: Option<f64>,
}

impl Kept {
    fn of(measured: &Measured, cpu_us_per_call: Option<f64>) -> Self {
        let counts = measured.latency_ns.iter_recorded();
        Self {
            calls: measured.calls,
            wall: measured.wall,
            latency: counts.map(|one| (one.value_iterated_to(), one.count_at_value())).collect(),
            cpu_us_per_call,
        }
    }

    fn measured(&self) -> Measured {
        let mut latency_ns = histogram();
        for &(value, count) in &self.latency {
            latency_ns.saturating_record_n(value, count);
        }
        Measured { calls: self.calls, wall: self.wall, latency_ns }
    }
}

impl ArmRounds {
    fn key(&self, round: usize) -> String {
        let function = self.plan.function.as_deref().unwrap_or_default();
        format!("{} {function} at {} round {round}", self.plan.name, self.plan.load.concurrency)
    }

    fn take(&mut self, kept: &Kept) {
        self.cpu_us_per_call.extend(kept.cpu_us_per_call);
        self.rounds.push(kept.measured());
    }

    /// Leaves the rounds of these numbers, which count from 1.
    fn leave(&mut self, counted: &[usize]) {
        let mut number = 0;
        self.rounds.retain(|_| {
            number += 1;
            counted.contains(&number)
        });
        // Measured in every round or in none.
        number = 0;
        self.cpu_us_per_call.retain(|_| {
            number += 1;
            counted.contains(&number)
        });
    }

    async fn drive(&self) -> Result<Kept, ArmError> {
        let plan = &self.plan;
        let before = plan.process.map(|process| process.cpu_us());
        let measured = drive(plan.arm.as_ref(), plan.load).await?;
        let cpu = plan.process.zip(before).map(|(process, before)| {
            // The uncounted warm-up calls are in the CPU time too; they are few beside the counted ones.
            let calls = measured.calls + (plan.load.concurrency * plan.load.warm_up) as u64;
            process.cpu_us().saturating_sub(before) as f64 / calls.max(1) as f64
        });
        plan.arm.settle().await?;
        Ok(Kept::of(&measured, cpu))
    }
}

/// Drives every arm once a round, after one round that is not counted: just-in-time compilers and caches are warm then. Rounds that
/// `folder` has are not driven again. Between rounds `noise` looks at the host, and those that were noisy are driven again, within
/// bounds; `part` is what the looks are kept under. `progress` is told before each step what comes and how many steps are done of how many.
pub async fn run_rounds(
    part: &str,
    plans: Vec<ArmPlan>,
    (rounds, pause): (usize, Duration),
    folder: &RunFolder,
    noise: &mut NoiseWatch,
    progress: &dyn Fn(&str, usize, usize),
) -> Result<Vec<ArmRounds>, ArmError> {
    let mut arms: Vec<ArmRounds> = plans
        .into_iter()
        .map(|plan| ArmRounds { plan, rounds: Vec::new(), cpu_us_per_call: Vec::new() })
        .collect();
    let count = arms.len();
    if count == 0 {
        return Ok(arms);
    }
    let has = |arm: &ArmRounds, round| folder.get::<Kept>(&arm.key(round)).is_some();
    for (at, arm) in arms.iter().enumerate() {
        progress(&arm.plan.name, at, count * (rounds + 1));
        if !(1..=rounds).all(|round| has(arm, round)) {
            arm.drive().await?;
        }
    }
    let mut round = 0;
    while noise.needs_another(part, rounds, round).await.map_err(std::io::Error::other)? {
        round += 1;
        if !arms.iter().all(|arm| has(arm, round)) {
            noise.look_before_round(part, round).await.map_err(std::io::Error::other)?;
        }
        for (at, arm) in arms.iter_mut().enumerate() {
            progress(&arm.plan.name, round * count + at, count * (rounds.max(round) + 1));
            if let Some(kept) = folder.get::<Kept>(&arm.key(round)) {
                arm.take(&kept);
                continue;
            }
            let kept = arm.drive().await?;
            folder.put(&arm.key(round), &kept).map_err(std::io::Error::other)?;
            arm.take(&kept);
            tokio::time::sleep(pause).await;
        }
    }
    let counted = noise.counted(part, rounds, round);
    arms.iter_mut().for_each(|arm| arm.leave(&counted));
    Ok(arms)
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use async_trait::async_trait;
    use serde_json::json;

    use super::*;
    use crate::{Connection, Identity};

    /// Counts its calls.
    struct Counts(Arc<AtomicUsize>);

    #[async_trait]
    impl Arm for Counts {
        async fn connect(&self) -> Result<Box<dyn Connection>, ArmError> {
            Ok(Box::new(Self(Arc::clone(&self.0))))
        }
    }

    #[async_trait]
    impl Connection for Counts {
        async fn call(&mut self) -> Result<(), ArmError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(())
        }
    }

    #[tokio::test]
    async fn rounds_that_were_driven_are_not_driven_again() {
        let scratch = tempfile::tempdir().unwrap();
        let identity =
            Identity { experiment: "x".into(), commit: "c".into(), host: json!(1), settings: json!(2) };
        let run = async |rounds: usize, looks: &[f64]| {
            let calls = Arc::new(AtomicUsize::new(0));
            let plan = ArmPlan {
                name: "a".into(),
                function: None,
                arm: Box::new(Counts(Arc::clone(&calls))),
                load: Load { concurrency: 1, duration: Duration::from_millis(10), warm_up: 0 },
                process: Some(ProcessTree::new(std::process::id())),
            };
            let folder = Arc::new(RunFolder::open(&scratch.path().join("run"), &identity).unwrap());
            let mut noise = NoiseWatch::of(Arc::clone(&folder));
            noise.script = Some(looks.iter().copied().collect());
            let how = (rounds, Duration::ZERO);
            let arms = run_rounds("p", vec![plan], how, &folder, &mut noise, &|_, _, _| {});
            let arm = arms.await.unwrap().remove(0);
            assert!(noise.script.unwrap().is_empty());
            let shape: Vec<_> = arm.rounds.iter().map(|r| (r.calls, r.latency_ns.len(), r.wall)).collect();
            (calls.load(Ordering::Relaxed), shape, arm.cpu_us_per_call.len(), arm.quantile_us(0.5))
        };
        let (driven, first, cpu, median) = run(2, &[0.0; 3]).await;
        assert!(driven > 0 && first.len() == 2 && cpu == 2);
        let again = run(2, &[]).await;
        assert_eq!(again, (0, first.clone(), 2, median));
        let (driven, more, _, _) = run(3, &[0.0; 2]).await;
        assert!(driven > 0 && more.len() == 3 && more[..2] == first[..]);
        // The fourth is noisy from its beginning to its end; another one takes its place, and is not driven again.
        let (driven, most, cpu, _) = run(4, &[0.5, 0.5, 0.0, 0.0]).await;
        assert!(driven > 0 && cpu == 4 && most.len() == 4 && most[..3] == more[..]);
        assert_eq!(run(4, &[]).await.1, most);
        let fifth = std::fs::read(scratch.path().join("run/results/a_20_20at_201_20round_205.json")).unwrap();
        assert_eq!(serde_json::from_slice::<Kept>(&fifth).unwrap().calls, most[3].0);
    }
}
