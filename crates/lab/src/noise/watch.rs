//! Probes the host between measurements. The probes are stored in the run's folder, so that an interrupted
//! run is judged by all of them.

use std::{collections::HashSet, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{MOST_MEMORY_SPREAD, MOST_OTHERS, MOST_SPREAD, MOST_STOLEN, Noise, Seen, Ticks, memory::Memory};
use crate::{RunFolder, RunFolderError, median, quantile};

/// The file of the probes, one per line.
const LOOKS: &str = "looks.jsonl";
/// Maximum wait for a quiet moment; all waits together are at most a third of the run's time.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Interval of probes during a wait: noise comes in bursts of one to some seconds.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// A probe after a measurement also serves as the one before the next, if that begins within this time.
const FRESH: Duration = Duration::from_secs(1);

/// Looks at the host between measurements.
#[derive(Debug)]
pub struct NoiseWatch {
    folder: Arc<RunFolder>,
    looks: Vec<Look>,
    /// The processors' time at the last probe.
    at: Ticks,
    /// What has been measured since the last probe.
    measuring: Option<String>,
    /// Time and findings of the last probe; `None` if something has been measured since.
    just_seen: Option<(Instant, Seen)>,
    /// Measurements that do not count.
    dropped: HashSet<String>,
    repeated: usize,
    begun: Instant,
    /// Total time waited for quiet moments.
    waited: Duration,
    /// Maximum wait for one of them.
    longest_wait: Duration,
    /// The memory probe, created by the first probe.
    memory: Option<Arc<Memory>>,
    /// Scripted findings for tests.
    #[cfg(test)]
    pub(crate) script: Option<std::collections::VecDeque<Seen>>,
}

/// A probe, with what was measured before and after it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Look {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    /// Absent if the probe of the line before also serves as the one before this measurement; in older
    /// reports also if the line only closes the account of processor time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seen: Option<Seen>,
    /// Since the probe before it, in ticks of all processors: stolen time, and total time.
    stolen: u64,
    all: u64,
}

impl Look {
    fn touches(&self, what: &str) -> bool {
        [&self.after, &self.before].into_iter().flatten().any(|name| name == what)
    }

    /// Whether it is the previous probe, serving also as the one before the next measurement.
    const fn is_joined(&self) -> bool {
        self.before.is_some() && self.seen.is_none()
    }
}

impl Default for NoiseWatch {
    fn default() -> Self {
        Self::start()
    }
}

impl NoiseWatch {
    /// Starts to watch, without storing anything.
    pub fn start() -> Self {
        Self::of(Arc::new(RunFolder::none()))
    }

    /// Watches a run, continuing from the stored probes.
    pub fn of(folder: Arc<RunFolder>) -> Self {
        let mut looks: Vec<Look> = Vec::new();
        for look in folder.lines::<Look>(LOOKS) {
            match looks.last_mut() {
                Some(last) if look.is_joined() => last.before = look.before,
                _ => looks.push(look),
            }
        }
        Self {
            looks,
            folder,
            at: Ticks::now(),
            measuring: None,
            just_seen: None,
            dropped: HashSet::new(),
            repeated: 0,
            begun: Instant::now(),
            waited: Duration::ZERO,
            longest_wait: LONGEST_WAIT,
            memory: None,
            #[cfg(test)]
            script: None,
        }
    }

    /// Disables waits for quiet moments, for short runs.
    #[must_use]
    pub fn without_waits(self) -> Self {
        Self { longest_wait: Duration::ZERO, ..self }
    }

    /// Probes before `what`, which is measured once whatever the findings; also serves as the probe after the
    /// last measurement. Earlier measurements must have come to rest. Measurements of an earlier start of the
    /// run need none: they have been probed.
    pub async fn look(&mut self, what: &str) -> Result<(), RunFolderError> {
        let seen = self.see().await;
        self.keep(Some(what), Some(seen))
    }

    /// Ends the measurements with a probe after the last one.
    pub async fn end(&mut self) -> Result<(), RunFolderError> {
        match self.measuring {
            Some(_) => self.look_after().await,
            None => Ok(()),
        }
    }

    async fn see(&mut self) -> Seen {
        #[cfg(test)]
        if let Some(script) = &mut self.script {
            return script.pop_front().expect("a look that is foreseen");
        }
        let memory = Arc::clone(self.memory.get_or_insert_with(|| Arc::new(Memory::new())));
        Seen::now(&memory).await
    }

    fn ticks(&self) -> Ticks {
        #[cfg(test)]
        if self.script.is_some() {
            return self.at;
        }
        Ticks::now()
    }

    fn keep(&mut self, before: Option<&str>, seen: Option<Seen>) -> Result<(), RunFolderError> {
        let now = self.ticks();
        let look = Look {
            after: self.measuring.take(),
            before: before.map(str::to_owned),
            seen,
            stolen: now.stolen.saturating_sub(self.at.stolen),
            all: now.all.saturating_sub(self.at.all),
        };
        self.folder.append(LOOKS, &look)?;
        (self.at, self.measuring, self.just_seen) = (now, look.before.clone(), None);
        match self.looks.last_mut() {
            Some(last) if look.is_joined() => last.before = look.before,
            _ => self.looks.push(look),
        }
        Ok(())
    }

    /// Probes after what has been measured since the last probe.
    async fn look_after(&mut self) -> Result<(), RunFolderError> {
        let seen = self.see().await;
        self.keep(None, Some(seen.clone()))?;
        self.just_seen = Some((Instant::now(), seen));
        Ok(())
    }

    /// The maximum number of repetitions for a wanted number of measurements: half as many, and at least two.
    pub const fn again(wanted: usize) -> usize {
        if wanted / 2 > 2 { wanted / 2 } else { 2 }
    }

    /// Whether `part`, measured `made` times, has to be measured again: until the wanted number of tries was
    /// quiet, [within bounds](Self::again). The measured values have no influence.
    pub async fn needs_another(
        &mut self,
        part: &str,
        wanted: usize,
        made: usize,
    ) -> Result<bool, RunFolderError> {
        if made < wanted {
            return Ok(true);
        }
        if self.measuring.as_deref() == Some(&attempt(part, made)) {
            self.look_after().await?;
        }
        let quiet = (1..=made).filter(|number| self.noisy_looks(&attempt(part, *number)) == 0).count();
        Ok(made < wanted + Self::again(wanted) && quiet < wanted)
    }

    /// Probes before try `number` of `part`, and on a noisy host waits for a quiet moment, within bounds; the
    /// last findings are those by which the try is judged. A recent probe after the previous measurement is
    /// reused.
    pub async fn look_before(&mut self, part: &str, number: usize) -> Result<(), RunFolderError> {
        let what = attempt(part, number);
        if self.measuring.is_some() {
            self.look_after().await?;
        }
        let just_seen = self.just_seen.take().filter(|(at, _)| at.elapsed() < FRESH);
        let mut new = None;
        let mut now = match just_seen {
            Some((_, seen)) => seen,
            None => new.insert(self.see().await).clone(),
        };
        let begin = Instant::now();
        while self.is_noise(&now) && self.may_wait(begin.elapsed()) {
            tokio::time::sleep(BETWEEN_LOOKS).await;
            // Stolen time during the wait affects no measurement.
            self.at = self.ticks();
            now = new.insert(self.see().await).clone();
        }
        self.waited += begin.elapsed();
        self.keep(Some(&what), new)
    }

    fn may_wait(&self, waiting: Duration) -> bool {
        waiting < self.longest_wait && 3 * (self.waited + waiting + BETWEEN_LOOKS) <= self.begun.elapsed()
    }

    /// Selects the tries of `part` that count: the quietest ones, by number of noisy probes, and of equal
    /// ones the first. The probes around the others do not count either.
    pub fn counted(&mut self, part: &str, wanted: usize, made: usize) -> Vec<usize> {
        let mut counted: Vec<usize> = (1..=made).collect();
        counted.sort_by_key(|number| self.noisy_looks(&attempt(part, *number)));
        let dropped = counted.split_off(wanted.min(made));
        self.dropped.extend(dropped.into_iter().map(|number| attempt(part, number)));
        self.repeated += counted.iter().filter(|number| **number > wanted).count();
        counted.sort_unstable();
        counted
    }

    /// The number of noisy probes before and after it; one that finds stolen time is noisy too.
    fn noisy_looks(&self, what: &str) -> usize {
        let is_noisy = |look: &&Look| {
            let stolen = look.after.as_deref() == Some(what) && stolen([*look]) > MOST_STOLEN;
            stolen || look.seen.as_ref().is_some_and(|seen| self.is_noise(seen))
        };
        self.looks.iter().filter(|look| look.touches(what)).filter(is_noisy).count()
    }

    /// Why a single measurement `what` must not be compared although the run as a whole was quiet: others
    /// were active just before or after it, or the hypervisor took processor time.
    pub fn spoilt(&self, what: &str) -> Option<String> {
        let is = |name: &Option<String>| name.as_deref() == Some(what);
        // If an earlier start of the run was interrupted, the counted measurement began after its last
        // preceding probe.
        let begun = self.looks.iter().rposition(|look| is(&look.before))?;
        let after = self.looks[begun..].iter().find(|look| is(&look.after));
        let others = |look: &Look| look.seen.as_ref().map_or(0.0, |seen| seen.others);
        let noise = Noise {
            stolen: stolen(after),
            others: others(&self.looks[begun]).max(after.map_or(0.0, others)),
            looks: 1,
            ..Noise::default()
        };
        (!noise.is_quiet()).then(|| noise.reasons().join("; "))
    }

    /// Whether findings are too noisy, relative to the run's fast moments.
    fn is_noise(&self, seen: &Seen) -> bool {
        let slow = |now: Option<f64>, fast: Option<f64>, most: f64| {
            now.zip(fast).is_some_and(|(now, fast)| now > most * fast)
        };
        let looks = || self.looks.iter();
        seen.others > MOST_OTHERS
            || slow(median(&seen.calibrations), calibration(looks(), 0.1), MOST_SPREAD)
            || slow(median(&seen.walks), memory(looks(), 0.1), MOST_MEMORY_SPREAD)
    }

    /// The summary of all probes around counted measurements, over all starts of the run.
    pub fn noise(&self) -> Noise {
        let is_dropped =
            |name: &Option<String>| name.as_ref().is_some_and(|name| self.dropped.contains(name));
        // A probe between two tries belongs to both.
        let counts = |look: &&Look| {
            let names: Vec<_> =
                [&look.after, &look.before].into_iter().filter(|name| name.is_some()).collect();
            names.is_empty() || !names.into_iter().all(is_dropped)
        };
        let looks: Vec<&Look> = self.looks.iter().filter(counts).collect();
        let others: Vec<f64> = looks.iter().filter_map(|look| Some(look.seen.as_ref()?.others)).collect();
        let spread = |quantile: &dyn Fn(f64) -> Option<f64>| match (quantile(0.9), quantile(0.1)) {
            (Some(slow), Some(fast)) if fast > 0.0 => slow / fast,
            _ => 1.0,
        };
        Noise {
            stolen: stolen(self.looks.iter().filter(|look| !is_dropped(&look.after))),
            others: median(&others).unwrap_or(0.0),
            spread: spread(&|share| calibration(looks.iter().copied(), share)),
            memory_spread: spread(&|share| memory(looks.iter().copied(), share)),
            looks: others.len(),
            repeated: self.repeated,
            start_after_rest: None,
        }
    }
}

/// A quantile of the computation's times.
fn calibration<'a>(looks: impl Iterator<Item = &'a Look>, share: f64) -> Option<f64> {
    let seen = looks.filter_map(|look| look.seen.as_ref());
    quantile(&seen.flat_map(|seen| &seen.calibrations).copied().collect::<Vec<_>>(), share)
}

/// A quantile of the times of a memory step, one per probe: processors may differ permanently.
fn memory<'a>(looks: impl Iterator<Item = &'a Look>, share: f64) -> Option<f64> {
    let seen = looks.filter_map(|look| median(&look.seen.as_ref()?.walks));
    quantile(&seen.collect::<Vec<_>>(), share)
}

/// The share of processor time taken by the hypervisor.
fn stolen<'a>(looks: impl IntoIterator<Item = &'a Look>) -> f64 {
    let (stolen, all) = looks.into_iter().fold((0, 0), |sum, look| (sum.0 + look.stolen, sum.1 + look.all));
    stolen as f64 / all.max(1) as f64
}

fn attempt(part: &str, number: usize) -> String {
    format!("{part} try {number}")
}

#[cfg(test)]
mod tests;
