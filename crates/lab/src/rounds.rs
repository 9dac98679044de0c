//! Measures arms alternately, A B C, A B C, …, so that changes of the machine affect all of them alike.

use std::{io, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    Arm, ArmError, Comparison, Load, Measured, NoiseWatch, ProcessTree, RunFolder, closed_loop::histogram,
    drive, median,
};

/// An arm and its load.
pub struct ArmPlan {
    /// Its name in the report.
    pub name: String,
    /// The function it calls, if any.
    pub function: Option<String>,
    /// The arm.
    pub arm: Box<dyn Arm>,
    /// Its load.
    pub load: Load,
    /// The processes whose CPU time counts for it; `None` = not measured.
    pub process: Option<ProcessTree>,
}

/// An arm's measurements in each round.
pub struct ArmRounds {
    /// Its plan.
    pub plan: ArmPlan,
    /// One measurement per round.
    pub rounds: Vec<Measured>,
    /// CPU time per call in each round, in µs.
    pub cpu_us_per_call: Vec<f64>,
}

impl ArmRounds {
    /// Calls per second, one figure per round.
    pub fn rates(&self) -> Vec<f64> {
        self.rounds.iter().map(Measured::rate).collect()
    }

    /// A quantile of the latency in µs, one figure per round.
    pub fn quantiles_us(&self, quantile: f64) -> Vec<f64> {
        self.rounds.iter().map(|round| round.quantile_us(quantile)).collect()
    }

    /// Compares it with another arm, by the medians of rounds.
    pub fn compared(&self, other: &Self) -> Option<Comparison> {
        let (mine, theirs) = (self.quantiles_us(0.5), other.quantiles_us(0.5));
        let title = match self.plan.load.concurrency {
            1 => "one caller".to_owned(),
            callers => format!("{callers} callers"),
        };
        Comparison::of_rounds(&title, (&self.plan.name, &mine), (&other.plan.name, &theirs))
    }

    /// The median over the rounds of a quantile in µs.
    pub fn quantile_us(&self, quantile: f64) -> Option<f64> {
        median(&self.quantiles_us(quantile))
    }
}

/// Why the rounds failed.
#[derive(Debug, thiserror::Error)]
pub enum RoundsError {
    /// An arm failed.
    #[error("arm {arm}: {error}")]
    Arm {
        /// Its name.
        arm: String,
        /// Why.
        error: ArmError,
    },
    /// A measurement or probe could not be stored.
    #[error(transparent)]
    Keep(#[from] io::Error),
}

/// A stored try of an arm's round.
#[derive(Serialize, Deserialize)]
struct Kept {
    calls: u64,
    wall: Duration,
    /// The latency histogram in ns: values and counts.
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
    /// The key of a try. The first one has the plain name.
    fn key(&self, round: usize, attempt: usize) -> String {
        let function = self.plan.function.as_deref().unwrap_or_default();
        let again = if attempt > 1 { format!(" try {attempt}") } else { String::new() };
        format!("{} {function} at {} round {round}{again}", self.plan.name, self.plan.load.concurrency)
    }

    fn kept(&self, round: usize, folder: &RunFolder) -> Vec<Kept> {
        (1..).map_while(|attempt| folder.get(&self.key(round, attempt))).collect()
    }

    fn take(&mut self, kept: &Kept) {
        self.cpu_us_per_call.extend(kept.cpu_us_per_call);
        self.rounds.push(kept.measured());
    }

    async fn drive(&self) -> Result<Kept, RoundsError> {
        self.driven().await.map_err(|error| RoundsError::Arm { arm: self.plan.name.clone(), error })
    }

    async fn driven(&self) -> Result<Kept, ArmError> {
        let plan = &self.plan;
        let before = plan.process.map(|process| process.cpu_us());
        let measured = drive(plan.arm.as_ref(), plan.load).await?;
        let cpu = plan.process.zip(before).map(|(process, before)| {
            // The CPU time includes the few uncounted warm-up calls.
            let calls = measured.calls + (plan.load.concurrency * plan.load.warm_up) as u64;
            process.cpu_us().saturating_sub(before) as f64 / calls.max(1) as f64
        });
        plan.arm.settle().await?;
        Ok(Kept::of(&measured, cpu))
    }
}

/// Drives every arm once per round, after an uncounted round that warms up compilers and caches. Rounds
/// stored in `folder` are not repeated. `noise` probes the host before and after each arm; an arm waits for a
/// quiet moment, and is driven again if the host was noisy all the same, within bounds. `part` is the key of
/// the probes. `progress` is told before each step what comes, and how many of how many steps are done.
pub async fn run_rounds(
    part: &str,
    plans: Vec<ArmPlan>,
    (rounds, pause): (usize, Duration),
    folder: &RunFolder,
    noise: &mut NoiseWatch,
    progress: &dyn Fn(&str, usize, usize),
) -> Result<Vec<ArmRounds>, RoundsError> {
    let mut arms: Vec<ArmRounds> = plans
        .into_iter()
        .map(|plan| ArmRounds { plan, rounds: Vec::new(), cpu_us_per_call: Vec::new() })
        .collect();
    let count = arms.len();
    // The tries of each round of each arm, in the order of driving.
    let mut tries: Vec<Vec<Kept>> =
        (0..rounds * count).map(|at| arms[at % count].kept(at / count + 1, folder)).collect();
    let what = |arm: &ArmRounds, round: usize| format!("{part}: {}", arm.key(round, 1));
    // The total of repetitions is bounded as well: a host that stays noisy is not measured for ever.
    let mut again = tries.iter().map(|tries| tries.len().saturating_sub(1)).sum::<usize>();
    let may = |made: usize, again: usize| made == 0 || again < NoiseWatch::again(rounds * count);
    let mut is_open = false;
    for (at, tries) in tries.iter().enumerate() {
        let what = what(&arms[at % count], at / count + 1);
        let wanted = noise.needs_another(&what, 1, tries.len()).await.map_err(io::Error::other)?;
        is_open |= wanted && may(tries.len(), again);
    }
    for (at, arm) in arms.iter().enumerate().filter(|_| is_open) {
        progress(&arm.plan.name, at, count * (rounds + 1));
        arm.drive().await?;
    }
    // Twice: only at the end is it known how fast this host can be, and so which of the first rounds were
    // noisy.
    for at in (0..tries.len()).chain(0..tries.len()) {
        let (arm, round, tries) = (&arms[at % count], at / count + 1, &mut tries[at]);
        let what = what(arm, round);
        while noise.needs_another(&what, 1, tries.len()).await.map_err(io::Error::other)?
            && may(tries.len(), again)
        {
            again += usize::from(!tries.is_empty());
            progress(&arm.plan.name, count + at, count * (rounds + 1));
            let attempt = tries.len() + 1;
            noise.look_before(&what, attempt).await.map_err(io::Error::other)?;
            let kept = arm.drive().await?;
            folder.put(&arm.key(round, attempt), &kept).map_err(io::Error::other)?;
            tries.push(kept);
            tokio::time::sleep(pause).await;
        }
    }
    for (at, tries) in tries.iter().enumerate() {
        let arm = &mut arms[at % count];
        let what = what(arm, at / count + 1);
        noise.counted(&what, 1, tries.len()).into_iter().for_each(|number| arm.take(&tries[number - 1]));
    }
    Ok(arms)
}

#[cfg(test)]
mod tests {
    use std::{
        path::Path,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use async_trait::async_trait;
    use serde_json::json;

    use super::*;
    use crate::{
        Connection, Identity, Noise,
        noise::scripted::{Seen, busy, quiet, slow_memory},
    };

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

    /// Runs two arms, `a` and `b`, with this folder; returns the number of calls and the counted rounds.
    async fn run(folder: &Path, rounds: usize, looks: &[Seen]) -> (usize, Vec<ArmRounds>, Noise) {
        let identity = Identity {
            experiment: "x".into(),
            commit: "c".into(),
            program: "p".into(),
            host: json!(1),
            settings: json!(2),
            workloads: None,
        };
        let calls = Arc::new(AtomicUsize::new(0));
        let plan = |name: &str| ArmPlan {
            name: name.into(),
            function: None,
            arm: Box::new(Counts(Arc::clone(&calls))),
            load: Load { concurrency: 1, duration: Duration::from_millis(10), warm_up: 0 },
            process: Some(ProcessTree::new(std::process::id())),
        };
        let folder = Arc::new(RunFolder::open(folder, &identity).unwrap());
        let mut noise = NoiseWatch::of(Arc::clone(&folder)).without_waits();
        noise.script = Some(looks.iter().cloned().collect());
        let how = (rounds, Duration::ZERO);
        let arms = run_rounds("p", vec![plan("a"), plan("b")], how, &folder, &mut noise, &|_, _, _| {});
        let arms = arms.await.unwrap();
        assert!(noise.script.as_ref().unwrap().is_empty());
        (calls.load(Ordering::Relaxed), arms, noise.noise())
    }

    /// Refuses connections.
    struct Gone;

    #[async_trait]
    impl Arm for Gone {
        async fn connect(&self) -> Result<Box<dyn Connection>, ArmError> {
            Err(io::Error::from(io::ErrorKind::UnexpectedEof).into())
        }
    }

    #[tokio::test]
    async fn an_arm_that_fails_is_named_once_with_its_reason() {
        let load = Load { concurrency: 1, duration: Duration::from_millis(1), warm_up: 0 };
        let plan = ArmPlan { name: "gone".into(), function: None, arm: Box::new(Gone), load, process: None };
        let arm = ArmRounds { plan, rounds: Vec::new(), cpu_us_per_call: Vec::new() };
        let error = arm.drive().await.err().unwrap();
        assert_eq!(error.to_string(), "arm gone: the connection broke: unexpected end of file");
        assert!(std::error::Error::source(&error).is_none());
    }

    fn shape(arms: &[ArmRounds]) -> Vec<(u64, u64, Duration)> {
        let rounds = arms.iter().flat_map(|arm| &arm.rounds);
        rounds.map(|round| (round.calls, round.latency_ns.len(), round.wall)).collect()
    }

    /// The stored try of this name.
    fn kept(folder: &Path, name: &str) -> (u64, Duration) {
        let name = name.replace(' ', "_20");
        let text = std::fs::read(folder.join(format!("results/{name}.json"))).unwrap();
        let kept: Kept = serde_json::from_slice(&text).unwrap();
        (kept.calls, kept.wall)
    }

    #[tokio::test(start_paused = true)]
    async fn rounds_that_were_driven_are_not_driven_again() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("run");
        // Before the first, between each two, and after the last.
        let (driven, arms, noise) = run(&folder, 2, &vec![quiet(); 5]).await;
        assert!(driven > 0 && arms.iter().all(|arm| arm.rounds.len() == 2 && arm.cpu_us_per_call.len() == 2));
        assert_eq!((noise.looks, noise.repeated), (5, 0));
        let (driven, again, noise) = run(&folder, 2, &[]).await;
        assert_eq!((driven, shape(&again), noise.looks), (0, shape(&arms), 5));
        assert_eq!(again[0].quantile_us(0.5), arms[0].quantile_us(0.5));
        let (driven, more, _) = run(&folder, 3, &[quiet(), quiet(), quiet()]).await;
        assert!(driven > 0 && more.iter().all(|arm| arm.rounds.len() == 3));
        assert_eq!(shape(&more)[..2], shape(&arms)[..2]);
        assert!(more[0].compared(&more[1]).is_none(), "three rounds are too few");
    }

    #[tokio::test(start_paused = true)]
    async fn an_arm_that_was_noisy_is_driven_again_and_its_quietest_try_counts() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("run");
        // Before a; after it, which without a wait also serves as the one before its second try; between that
        // and the third; before b; after b.
        let looks = [quiet(), slow_memory(), quiet(), quiet(), quiet()];
        let (_, arms, noise) = run(&folder, 1, &looks).await;
        let of = |arms: &[ArmRounds], at: usize| (arms[at].rounds[0].calls, arms[at].rounds[0].wall);
        assert_eq!(of(&arms, 0), kept(&folder, "a  at 1 round 1 try 3"));
        assert_eq!(of(&arms, 1), kept(&folder, "b  at 1 round 1"));
        assert_eq!((arms[0].cpu_us_per_call.len(), noise.repeated), (1, 1));
        assert!(noise.is_quiet(), "{:?}", noise);
        // Another start measures nothing and counts the same.
        let (driven, again, noise) = run(&folder, 1, &[]).await;
        assert_eq!((driven, shape(&again), noise.repeated), (0, shape(&arms), 1));
        assert!(noise.is_quiet());
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_stays_noisy_is_not_measured_for_ever() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("run");
        let (_, arms, noise) = run(&folder, 1, &vec![busy(); 5]).await;
        // All are equally noisy: the first counts. The first arm used up all repetitions.
        assert_eq!(arms[0].rounds[0].calls, kept(&folder, "a  at 1 round 1").0);
        let tries = std::fs::read_dir(folder.join("results")).unwrap().count();
        assert_eq!((tries, kept(&folder, "a  at 1 round 1 try 3").0 > 0), (4, true));
        assert!(noise.repeated == 0 && !noise.is_quiet());
        let (driven, again, _) = run(&folder, 1, &[]).await;
        assert_eq!((driven, shape(&again)), (0, shape(&arms)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_only_later_looks_show_to_have_been_noisy_is_driven_again() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("run");
        // A burst that begins before the run and ends with its second arm: until then there is nothing to
        // compare it with.
        let looks = [slow_memory(), slow_memory(), quiet(), quiet(), quiet()];
        let (_, arms, noise) = run(&folder, 1, &looks).await;
        for (arm, name) in arms.iter().zip(["a", "b"]) {
            assert_eq!(arm.rounds[0].calls, kept(&folder, &format!("{name}  at 1 round 1 try 2")).0);
        }
        assert_eq!((noise.repeated, noise.is_quiet()), (2, true));
    }
}
