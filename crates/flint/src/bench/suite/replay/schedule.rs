//! Where the calls come from: a function of the trace for all copies, or the whole trace.

use std::{fs::File, path::Path, time::Duration};

use anyhow::{Context as _, ensure};
use flint_lab::{
    Arrival, Random,
    trace::{self, Azure2019, Azure2021, FunctionRow, Part, Replay, WholeTrace, apps, excerpt, select},
};

use super::{Manifest, Run, Variant};
use crate::{bench::asked::at_least_one, failure::Failure};

/// Nobody waits longer for a call that a trace has long: the longest are cut to this.
const LONGEST: Duration = Duration::from_secs(30);
/// Apps that are drawn for a whole trace: many more than are kept.
const DRAWN: usize = 2000;

/// When which function is called.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    /// `which` is a call's place in `calls`.
    pub(super) arrivals: Vec<Arrival>,
    /// A function's number, and how long that call takes, in ms, where the trace says it.
    pub(super) calls: Vec<(usize, Option<u64>)>,
    pub(super) functions: usize,
    pub(super) length: Duration,
    /// What it is, in words.
    pub(super) note: String,
}

/// What the command line says.
pub(super) struct Wanted {
    source: Source,
    /// Every call of every function; otherwise Photons' procedure.
    whole: bool,
    copies: usize,
    minutes: usize,
    pub(super) compression: f64,
    part: Part,
    seed: u64,
}

enum Source {
    Of2019(Azure2019),
    Of2021(Azure2021),
    Drawn,
}

impl Wanted {
    pub(super) fn new(run: &Run) -> anyhow::Result<Self> {
        let quick = run.effort.quick;
        let set = |name: &str| run.effort.set.get(name).map(String::as_str);
        let source = match set("trace") {
            None => Source::Of2019(excerpt::of_2019()?),
            Some("2021") => Source::Of2021(excerpt::of_2021()?),
            Some("synthetic") => Source::Drawn,
            Some(path) if Path::new(path).is_file() => {
                Source::Of2021(Azure2021::read(open(Path::new(path))?)?)
            }
            Some(path) => Source::Of2019(tables(Path::new(path))?),
        };
        let whole = match set("procedure") {
            None => matches!(source, Source::Of2021(_)),
            Some("whole") => true,
            Some("photons") => false,
            Some(other) => {
                return Err(Failure::usage(format!("--set procedure={other}: it is photons or whole")).into());
            }
        };
        ensure!(
            whole || !matches!(source, Source::Of2021(_)),
            "the trace of 2021 has no minutes that Photons' procedure replays: --set procedure=whole"
        );
        let minutes = at_least_one(run, "minutes", 59.0)?;
        Ok(Self {
            source,
            whole,
            copies: at_least_one(run, "copies", if quick { 3.0 } else { 20.0 })? as usize,
            minutes: minutes as usize,
            compression: at_least_one(run, "compress", if quick { 300.0 } else { 10.0 })?,
            part: Part {
                length: Duration::from_secs(60 * minutes as u64),
                functions: at_least_one(run, "functions-at-most", if quick { 6.0 } else { 60.0 })? as usize,
                calls: at_least_one(run, "calls", if quick { 200.0 } else { 10_000.0 })? as usize,
            },
            seed: run.effort.seed,
        })
    }

    /// A whole trace has durations, and not every workload takes as long as it is told.
    pub(super) fn suits(&self, workload: &Manifest) -> bool {
        !self.whole || workload.duration.is_some()
    }

    pub(super) fn schedule(&self, variant: &Variant) -> anyhow::Result<Schedule> {
        if self.whole { self.all() } else { self.photons(variant) }
    }

    /// Copies of one function, one after the other.
    fn photons(&self, variant: &Variant) -> anyhow::Result<Schedule> {
        let replay = Replay { copies: self.copies, minutes: self.minutes, compression: self.compression };
        let row = match &self.source {
            Source::Of2019(trace) => photons_choice(trace, variant)?.clone(),
            Source::Of2021(_) | Source::Drawn => synthetic(self.seed)?,
        };
        let calls: u32 = row.minutes.iter().take(replay.minutes).sum();
        ensure!(calls > 0, "the trace's function has no call in its first {} minutes", replay.minutes);
        let note = format!(
            "{} copies of trace function {}, {calls} calls in {} minutes each, {} × as fast",
            self.copies,
            row.function.chars().take(8).collect::<String>(),
            self.minutes,
            self.compression
        );
        Ok(Schedule {
            arrivals: replay.schedule(&row),
            calls: (0..self.copies).map(|copy| (copy, None)).collect(),
            functions: self.copies,
            length: replay.duration(),
            note,
        })
    }

    /// Every call of every function that is kept.
    fn all(&self) -> anyhow::Result<Schedule> {
        let whole = match &self.source {
            Source::Of2019(trace) => WholeTrace::of_2019(trace, self.part, self.seed),
            Source::Of2021(trace) => WholeTrace::of_2021(trace, self.part),
            Source::Drawn => {
                let hour = Random::new(self.seed).below(24) as u32;
                WholeTrace::of_apps(
                    &apps(self.seed, DRAWN),
                    Duration::from_secs(3600) * hour,
                    self.part,
                    self.seed,
                )
            }
        };
        let fast = whole.compressed(self.compression);
        ensure!(!fast.calls.is_empty(), "the trace has no call in its first {} minutes", self.minutes);
        let cut = fast.calls.iter().filter(|call| call.took > LONGEST).count();
        let calls: Vec<_> = fast
            .calls
            .iter()
            .map(|call| (call.function, Some(call.took.min(LONGEST).as_millis() as u64)))
            .collect();
        let arrivals: Vec<_> =
            fast.calls.iter().enumerate().map(|(which, call)| Arrival { at: call.at, which }).collect();
        let note = format!(
            "{} calls of {} functions in {} minutes, {} × as fast, {cut} of them cut to {} s",
            calls.len(),
            fast.functions.len(),
            self.minutes,
            self.compression,
            LONGEST.as_secs()
        );
        let length = arrivals.last().map_or(Duration::ZERO, |last| last.at);
        Ok(Schedule { arrivals, calls, functions: fast.functions.len(), length, note })
    }
}

/// The function with the nearest memory.
fn photons_choice<'a>(trace: &'a Azure2019, variant: &Variant) -> anyhow::Result<&'a FunctionRow> {
    let memory = variant
        .functions
        .iter()
        .find(|function| function.name == variant.entry)
        .and_then(|function| function.memory_mb);
    let most_mb = memory.unwrap_or(256) as f64;
    select(trace, trace::Wanted { least_mb: most_mb / 2.0, most_mb })
        .context("no function of the trace has more than 10 and fewer than 100 calls in its first 59 minutes")
}

fn open(path: &Path) -> anyhow::Result<File> {
    File::open(path).with_context(|| format!("opening {}", path.display()))
}

/// A day of 2019.
fn tables(folder: &Path) -> anyhow::Result<Azure2019> {
    let open = |name: &str| {
        open(&folder.join(name))
            .context("the tables of a day are named invocations.csv, durations.csv and memory.csv")
    };
    let optional = |name: &str| if folder.join(name).exists() { open(name).map(Some) } else { Ok(None) };
    Ok(Azure2019::read(open("invocations.csv")?, optional("durations.csv")?, optional("memory.csv")?)?)
}

/// The first drawn app that is called as often as Photons wants it, from a time of day that is drawn too.
fn synthetic(seed: u64) -> anyhow::Result<FunctionRow> {
    let hour = Duration::from_secs(3600);
    for (at, app) in apps(seed, 10_000).iter().enumerate() {
        let mut random = Random::new(seed).part(u64::MAX - at as u64);
        let from = hour * random.below(24) as u32;
        let mut minutes = vec![0_u32; 60];
        for (when, _) in app.calls(from, hour, random).take(1000) {
            minutes[(when.as_secs() / 60) as usize] += 1;
        }
        let calls: u32 = minutes[..59].iter().sum();
        if 10 < calls && calls < 100 {
            return Ok(FunctionRow {
                app: format!("drawn-{at}"),
                function: format!("drawn-{at}"),
                trigger: "drawn".into(),
                minutes,
            });
        }
    }
    anyhow::bail!("none of 10000 drawn apps has between 10 and 100 calls an hour")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(source: Source, whole: bool) -> Wanted {
        let part = Part { length: Duration::from_secs(3540), functions: 5, calls: 100 };
        Wanted { source, whole, copies: 2, minutes: 59, compression: 60.0, part, seed: 1 }
    }

    #[test]
    fn a_drawn_function_is_called_as_often_as_photons_wants_it() {
        for seed in [1, 2] {
            let row = synthetic(seed).unwrap();
            assert!((11..100).contains(&row.minutes[..59].iter().sum::<u32>()));
            assert_eq!(row, synthetic(seed).unwrap());
        }
    }

    #[test]
    fn every_trace_becomes_a_schedule_of_known_functions() {
        for source in [
            Source::Of2019(excerpt::of_2019().unwrap()),
            Source::Of2021(excerpt::of_2021().unwrap()),
            Source::Drawn,
        ] {
            let schedule = wanted(source, true).all().unwrap();
            assert!((1..=5).contains(&schedule.functions) && (1..=100).contains(&schedule.arrivals.len()));
            assert!(schedule.arrivals.is_sorted_by_key(|arrival| arrival.at));
            assert!(schedule.arrivals.iter().all(|arrival| arrival.at <= schedule.length));
            for (function, ms) in &schedule.calls {
                assert!(*function < schedule.functions && ms.unwrap() <= 30_000);
            }
        }
    }

    #[test]
    fn copies_are_called_by_their_numbers() {
        let function = serde_json::json!({ "name": "f", "code": "f.js", "kind": "nodejs", "memory_mb": 256 });
        let variant = serde_json::json!({ "name": "node", "entry": "f", "functions": [function] });
        let variant: Variant = serde_json::from_value(variant).unwrap();
        let schedule = wanted(Source::Of2019(excerpt::of_2019().unwrap()), false).schedule(&variant).unwrap();
        assert_eq!((schedule.functions, schedule.calls.as_slice()), (2, &[(0, None), (1, None)][..]));
        assert!(schedule.arrivals.iter().all(|arrival| arrival.which < 2) && schedule.arrivals.len() > 20);
    }
}
