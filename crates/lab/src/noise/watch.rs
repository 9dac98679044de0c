//! Looks at the host, kept in the run's folder with what was measured between them: a run that was interrupted is judged by all it saw.

use std::{collections::HashSet, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{MOST_OTHERS, MOST_SPREAD, MOST_STOLEN, Noise, Seen, Ticks};
use crate::{RunFolder, RunFolderError, median, quantile};

/// The file of the looks, one a line.
const LOOKS: &str = "looks.jsonl";

/// Looks at the host between measurements.
#[derive(Debug)]
pub struct NoiseWatch {
    folder: Arc<RunFolder>,
    looks: Vec<Look>,
    /// The processors' time at the last look.
    at: Ticks,
    /// What has been measured since the last look.
    measuring: Option<String>,
    /// What was measured and does not count.
    dropped: HashSet<String>,
    repeated: usize,
    /// What a test wants to be seen: how much others use.
    #[cfg(test)]
    pub(crate) script: Option<std::collections::VecDeque<f64>>,
}

/// One look, between what was measured before and after it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Look {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    /// Nothing when it only closes the account of the processors' time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seen: Option<Seen>,
    /// Of the time since the look before it, in ticks of all processors: what a hypervisor took, and all.
    stolen: u64,
    all: u64,
}

impl Look {
    fn touches(&self, what: &str) -> bool {
        [&self.after, &self.before].into_iter().flatten().any(|name| name == what)
    }
}

impl Default for NoiseWatch {
    fn default() -> Self {
        Self::start()
    }
}

impl NoiseWatch {
    /// Begins to watch; nothing is kept.
    pub fn start() -> Self {
        Self::of(Arc::new(RunFolder::none()))
    }

    /// Watches the run of `folder`, from what its earlier starts have seen.
    pub fn of(folder: Arc<RunFolder>) -> Self {
        Self {
            looks: folder.lines(LOOKS),
            folder,
            at: Ticks::now(),
            measuring: None,
            dropped: HashSet::new(),
            repeated: 0,
            #[cfg(test)]
            script: None,
        }
    }

    /// Looks at the host before `what` is measured, and so after what was measured since the last look. What was measured before must
    /// have come to rest. What an earlier start of the run has measured needs no look: it has one.
    pub async fn look(&mut self, what: &str) -> Result<(), RunFolderError> {
        let seen = self.see().await;
        self.keep(Some(what), Some(seen))
    }

    /// Nothing more is measured: the processors' time since the last look is part of the account.
    pub fn end(&mut self) -> Result<(), RunFolderError> {
        match self.measuring {
            Some(_) => self.keep(None, None),
            None => Ok(()),
        }
    }

    async fn see(&mut self) -> Seen {
        #[cfg(test)]
        if let Some(script) = &mut self.script {
            return Seen {
                others: script.pop_front().expect("a look that is foreseen"),
                calibrations: vec![0.01],
            };
        }
        Seen::now().await
    }

    fn keep(&mut self, before: Option<&str>, seen: Option<Seen>) -> Result<(), RunFolderError> {
        let now = Ticks::now();
        #[cfg(test)]
        let now = if self.script.is_some() { self.at } else { now };
        let look = Look {
            after: self.measuring.take(),
            before: before.map(str::to_owned),
            seen,
            stolen: now.stolen.saturating_sub(self.at.stolen),
            all: now.all.saturating_sub(self.at.all),
        };
        self.folder.append(LOOKS, &look)?;
        (self.at, self.measuring) = (now, look.before.clone());
        self.looks.push(look);
        Ok(())
    }

    /// Whether `part`, of which `made` rounds were measured, needs another one: until as many as are wanted were quiet, but no more
    /// than half as many again. What the rounds measured has no say in it.
    pub async fn needs_another(
        &mut self,
        part: &str,
        wanted: usize,
        made: usize,
    ) -> Result<bool, RunFolderError> {
        if made < wanted {
            return Ok(true);
        }
        if self.measuring.as_deref() == Some(&round(part, made)) {
            let seen = self.see().await;
            self.keep(None, Some(seen))?;
        }
        let quiet = (1..=made).filter(|number| !self.was_noisy(&round(part, *number))).count();
        Ok(made < wanted + wanted / 2 && quiet < wanted)
    }

    /// Looks before round `number` of `part`.
    pub async fn look_before_round(&mut self, part: &str, number: usize) -> Result<(), RunFolderError> {
        self.look(&round(part, number)).await
    }

    /// Which of the rounds of `part` count: the quiet ones, and where those are too few the first of the others. What was seen around
    /// the rest does not count either.
    pub fn counted(&mut self, part: &str, wanted: usize, made: usize) -> Vec<usize> {
        let (noisy, mut counted): (Vec<usize>, Vec<usize>) =
            (1..=made).partition(|number| self.was_noisy(&round(part, *number)));
        counted.truncate(wanted);
        counted.extend(noisy.into_iter().take(wanted.saturating_sub(counted.len())));
        counted.sort_unstable();
        let dropped = (1..=made).filter(|number| !counted.contains(number));
        self.dropped.extend(dropped.map(|number| round(part, number)));
        self.repeated += counted.iter().filter(|number| **number > wanted).count();
        counted
    }

    /// Whether a look before or after it saw noise, or time was stolen from it.
    fn was_noisy(&self, what: &str) -> bool {
        let fast = self.calibration(self.looks.iter(), 0.1);
        let seen = |seen: &Seen| {
            let slow =
                median(&seen.calibrations).zip(fast).is_some_and(|(now, fast)| now > MOST_SPREAD * fast);
            slow || seen.others > MOST_OTHERS
        };
        self.looks.iter().filter(|look| look.touches(what)).any(|look| {
            let stolen = look.after.as_deref() == Some(what) && stolen([look]) > MOST_STOLEN;
            stolen || look.seen.as_ref().is_some_and(seen)
        })
    }

    fn calibration<'a>(&self, looks: impl Iterator<Item = &'a Look>, share: f64) -> Option<f64> {
        let all: Vec<f64> = looks
            .filter_map(|look| look.seen.as_ref())
            .flat_map(|seen| &seen.calibrations)
            .copied()
            .collect();
        quantile(&all, share)
    }

    /// What was seen so far, by all starts of the run, around what counts.
    pub fn noise(&self) -> Noise {
        let is_dropped =
            |name: &Option<String>| name.as_ref().is_some_and(|name| self.dropped.contains(name));
        // A look between two rounds is of both.
        let counts = |look: &&Look| {
            let names: Vec<_> =
                [&look.after, &look.before].into_iter().filter(|name| name.is_some()).collect();
            names.is_empty() || !names.into_iter().all(is_dropped)
        };
        let looks: Vec<&Look> = self.looks.iter().filter(counts).collect();
        let others: Vec<f64> = looks.iter().filter_map(|look| Some(look.seen.as_ref()?.others)).collect();
        let calibration = |share| self.calibration(looks.iter().copied(), share);
        let spread = match (calibration(0.9), calibration(0.1)) {
            (Some(slow), Some(fast)) if fast > 0.0 => slow / fast,
            _ => 1.0,
        };
        Noise {
            stolen: stolen(self.looks.iter().filter(|look| !is_dropped(&look.after))),
            others: median(&others).unwrap_or(0.0),
            spread,
            looks: others.len(),
            repeated: self.repeated,
        }
    }
}

/// The share of the processors' time that a hypervisor took.
fn stolen<'a>(looks: impl IntoIterator<Item = &'a Look>) -> f64 {
    let (stolen, all) = looks.into_iter().fold((0, 0), |sum, look| (sum.0 + look.stolen, sum.1 + look.all));
    stolen as f64 / all.max(1) as f64
}

fn round(part: &str, number: usize) -> String {
    format!("{part} round {number}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::Identity;

    const QUIET: f64 = 0.0;
    const NOISY: f64 = 0.5;

    fn watch(folder: &Path, script: &[f64]) -> NoiseWatch {
        let identity =
            Identity { experiment: "x".into(), commit: "c".into(), host: json!(1), settings: json!(2) };
        let mut watch = NoiseWatch::of(Arc::new(RunFolder::open(folder, &identity).unwrap()));
        watch.script = Some(script.iter().copied().collect());
        watch
    }

    /// Measures the rounds from `first` on; those that count.
    async fn rounds(watch: &mut NoiseWatch, first: usize, wanted: usize) -> Vec<usize> {
        let mut made = first - 1;
        while watch.needs_another("p", wanted, made).await.unwrap() {
            made += 1;
            watch.look_before_round("p", made).await.unwrap();
        }
        watch.counted("p", wanted, made)
    }

    #[tokio::test]
    async fn looking_sees_something() {
        let mut watch = NoiseWatch::start();
        assert!(!watch.noise().is_quiet());
        watch.look("a").await.unwrap();
        let noise = watch.noise();
        assert!(noise.looks == 1 && noise.spread >= 1.0 && (0.0..=1.0).contains(&noise.others));
    }

    #[tokio::test]
    async fn an_interrupted_run_is_judged_by_all_that_it_saw() {
        // Quiet for long and then noisy; and the other way round.
        for (early, late, quiet) in [(QUIET, NOISY, true), (NOISY, QUIET, false)] {
            let whole = [early, early, early, late];
            let scratch = tempfile::tempdir().unwrap();
            let mut uninterrupted = watch(&scratch.path().join("a"), &whole);
            for at in 0..4 {
                uninterrupted.look(&at.to_string()).await.unwrap();
            }
            let folder = scratch.path().join("b");
            let mut first = watch(&folder, &whole[..3]);
            for at in 0..3 {
                first.look(&at.to_string()).await.unwrap();
            }
            drop(first);
            // The machine went down while a line was written.
            let path = folder.join(LOOKS);
            let torn = [std::fs::read(&path).unwrap().as_slice(), b"{\"before\":\"3"].concat();
            std::fs::write(&path, torn).unwrap();
            let mut second = watch(&folder, &whole[3..]);
            second.look("3").await.unwrap();
            second.end().unwrap();
            let third = watch(&folder, &[]).noise();
            for noise in [uninterrupted.noise(), second.noise(), third] {
                assert_eq!((noise.looks, noise.others > MOST_OTHERS), (4, !quiet), "{noise:?}");
            }
        }
    }

    #[tokio::test]
    async fn rounds_that_were_noisy_are_measured_again_and_do_not_count() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("run");
        // Looks before rounds 1 to 4 and after the fourth; before and after the fifth; before and after the sixth.
        let mut whole =
            watch(&folder, &[QUIET, NOISY, QUIET, QUIET, QUIET, QUIET, QUIET, QUIET, QUIET, QUIET]);
        // The noisy look is between the first and the second round.
        assert_eq!(rounds(&mut whole, 1, 4).await, [3, 4, 5, 6]);
        let noise = whole.noise();
        assert_eq!((noise.repeated, noise.others), (2, QUIET));
        // Another start of it measures nothing and counts the same.
        let mut again = watch(&folder, &[]);
        assert!(!again.needs_another("p", 4, 6).await.unwrap());
        assert!(again.needs_another("p", 4, 5).await.unwrap());
        assert_eq!(again.counted("p", 4, 6), [3, 4, 5, 6]);
        assert_eq!((again.noise().repeated, again.noise().looks), (2, noise.looks));
    }

    #[tokio::test]
    async fn a_host_that_stays_noisy_is_not_measured_for_ever() {
        let scratch = tempfile::tempdir().unwrap();
        let mut watch = watch(&scratch.path().join("run"), &[NOISY; 20]);
        assert_eq!(rounds(&mut watch, 1, 4).await, [1, 2, 3, 4]);
        let noise = watch.noise();
        assert_eq!((noise.repeated, noise.others), (0, NOISY));
        assert!(!noise.is_quiet());
    }

    #[test]
    fn stolen_time_is_of_what_was_measured_meanwhile() {
        let mut watch = NoiseWatch::start();
        let look = |after: Option<&str>, stolen| Look {
            after: after.map(str::to_owned),
            before: None,
            seen: None,
            stolen,
            all: 100,
        };
        watch.looks = vec![look(None, 0), look(Some("p round 1"), 50), look(Some("p round 2"), 2)];
        assert!(watch.was_noisy("p round 1") && !watch.was_noisy("p round 2"));
        assert!((watch.noise().stolen - 52.0 / 300.0).abs() < 1e-12);
        assert_eq!(watch.counted("p", 1, 2), [2]);
        assert!((watch.noise().stolen - 2.0 / 200.0).abs() < 1e-12);
    }
}
