//! Looks at the host, kept in the run's folder with what was measured between them: a run that was interrupted is judged by all it saw.

use std::{collections::HashSet, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{MOST_MEMORY_SPREAD, MOST_OTHERS, MOST_SPREAD, MOST_STOLEN, Noise, Seen, Ticks, memory::Memory};
use crate::{RunFolder, RunFolderError, median, quantile};

/// The file of the looks, one a line.
const LOOKS: &str = "looks.jsonl";
/// A wait for a quiet moment is at most so long; all waits together take at most a third of the run's time.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Between two looks of a wait: noise comes in bursts of one to some seconds.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// A look after a measurement is one before the next when that begins so soon.
const FRESH: Duration = Duration::from_secs(1);

/// Looks at the host between measurements.
#[derive(Debug)]
pub struct NoiseWatch {
    folder: Arc<RunFolder>,
    looks: Vec<Look>,
    /// The processors' time at the last look.
    at: Ticks,
    /// What has been measured since the last look.
    measuring: Option<String>,
    /// When the last look was, and what it saw; nothing when something has been measured since.
    just_seen: Option<(Instant, Seen)>,
    /// What was measured and does not count.
    dropped: HashSet<String>,
    repeated: usize,
    begun: Instant,
    /// For quiet moments, in all.
    waited: Duration,
    /// For one of them.
    longest_wait: Duration,
    /// What is walked through, from the first look on.
    memory: Option<Arc<Memory>>,
    /// What a test wants to be seen.
    #[cfg(test)]
    pub(crate) script: Option<std::collections::VecDeque<Seen>>,
}

/// One look, between what was measured before and after it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Look {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    /// Nothing when it says that the look of the line before was one before this too; of earlier releases also when it only closes the
    /// account of the processors' time.
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

    /// Whether it is the look before it, which was one before something too.
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
    /// Begins to watch; nothing is kept.
    pub fn start() -> Self {
        Self::of(Arc::new(RunFolder::none()))
    }

    /// Watches the run of `folder`, from what its earlier starts have seen.
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

    /// The same for a run that is to be short: it does not wait for quiet moments.
    #[must_use]
    pub fn without_waits(self) -> Self {
        Self { longest_wait: Duration::ZERO, ..self }
    }

    /// Looks at the host before `what` is measured, which is measured once whatever is seen, and so after what was measured since the last
    /// look. What was measured before must have come to rest. What an earlier start of the run has measured needs no look: it has one.
    pub async fn look(&mut self, what: &str) -> Result<(), RunFolderError> {
        let seen = self.see().await;
        self.keep(Some(what), Some(seen))
    }

    /// Nothing more is measured: what was measured last has a look after it too, as all before it have by the next one.
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

    /// Looks after what has been measured since the last look.
    async fn look_after(&mut self) -> Result<(), RunFolderError> {
        let seen = self.see().await;
        self.keep(None, Some(seen.clone()))?;
        self.just_seen = Some((Instant::now(), seen));
        Ok(())
    }

    /// How often may be measured again where so much was wanted: half as often, and at least twice.
    pub const fn again(wanted: usize) -> usize {
        if wanted / 2 > 2 { wanted / 2 } else { 2 }
    }

    /// Whether `part`, which was measured `made` times, has to be measured once more: until as many tries as are wanted were quiet, but
    /// [within bounds](Self::again). What the tries measured has no say in it.
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

    /// Looks before try `number` of `part`, and where the host is noisy waits for a quiet moment, within bounds: what is seen then is what
    /// the try is judged by. A look that was made after the measurement before it serves, where that has only just ended.
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
            // What is stolen meanwhile is stolen from nothing.
            self.at = self.ticks();
            now = new.insert(self.see().await).clone();
        }
        self.waited += begin.elapsed();
        self.keep(Some(&what), new)
    }

    fn may_wait(&self, waiting: Duration) -> bool {
        waiting < self.longest_wait && 3 * (self.waited + waiting + BETWEEN_LOOKS) <= self.begun.elapsed()
    }

    /// Which of the tries of `part` count: the quietest ones, which are those with the fewest noisy looks, and of equal ones the first.
    /// What was seen around the rest does not count either.
    pub fn counted(&mut self, part: &str, wanted: usize, made: usize) -> Vec<usize> {
        let mut counted: Vec<usize> = (1..=made).collect();
        counted.sort_by_key(|number| self.noisy_looks(&attempt(part, *number)));
        let dropped = counted.split_off(wanted.min(made));
        self.dropped.extend(dropped.into_iter().map(|number| attempt(part, number)));
        self.repeated += counted.iter().filter(|number| **number > wanted).count();
        counted.sort_unstable();
        counted
    }

    /// How many of the looks before and after it saw noise; one that finds that time was stolen from it is noisy too.
    fn noisy_looks(&self, what: &str) -> usize {
        let is_noisy = |look: &&Look| {
            let stolen = look.after.as_deref() == Some(what) && stolen([*look]) > MOST_STOLEN;
            stolen || look.seen.as_ref().is_some_and(|seen| self.is_noise(seen))
        };
        self.looks.iter().filter(|look| look.touches(what)).filter(is_noisy).count()
    }

    /// Why what was measured once as `what` is not to be compared, although the run as a whole was quiet: others were at work just before or
    /// just after it, or the hypervisor took processors away from it.
    pub fn spoilt(&self, what: &str) -> Option<String> {
        let is = |name: &Option<String>| name.as_deref() == Some(what);
        // Where an earlier start of the run was interrupted, what counts began after the last look before it.
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

    /// Whether it is too much, compared with what the run's looks saw in their fast moments.
    fn is_noise(&self, seen: &Seen) -> bool {
        let slow = |now: Option<f64>, fast: Option<f64>, most: f64| {
            now.zip(fast).is_some_and(|(now, fast)| now > most * fast)
        };
        let looks = || self.looks.iter();
        seen.others > MOST_OTHERS
            || slow(median(&seen.calibrations), calibration(looks(), 0.1), MOST_SPREAD)
            || slow(median(&seen.walks), memory(looks(), 0.1), MOST_MEMORY_SPREAD)
    }

    /// What was seen so far, by all starts of the run, around what counts.
    pub fn noise(&self) -> Noise {
        let is_dropped =
            |name: &Option<String>| name.as_ref().is_some_and(|name| self.dropped.contains(name));
        // A look between two tries is of both.
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

/// A quantile of the times that the computation took.
fn calibration<'a>(looks: impl Iterator<Item = &'a Look>, share: f64) -> Option<f64> {
    let seen = looks.filter_map(|look| look.seen.as_ref());
    quantile(&seen.flat_map(|seen| &seen.calibrations).copied().collect::<Vec<_>>(), share)
}

/// A quantile of the times that a step through memory took, one a look: processors may differ for good.
fn memory<'a>(looks: impl Iterator<Item = &'a Look>, share: f64) -> Option<f64> {
    let seen = looks.filter_map(|look| median(&look.seen.as_ref()?.walks));
    quantile(&seen.collect::<Vec<_>>(), share)
}

/// The share of the processors' time that a hypervisor took.
fn stolen<'a>(looks: impl IntoIterator<Item = &'a Look>) -> f64 {
    let (stolen, all) = looks.into_iter().fold((0, 0), |sum, look| (sum.0 + look.stolen, sum.1 + look.all));
    stolen as f64 / all.max(1) as f64
}

fn attempt(part: &str, number: usize) -> String {
    format!("{part} try {number}")
}

#[cfg(test)]
mod tests;
