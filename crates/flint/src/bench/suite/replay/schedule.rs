//! Schedules of replays: a function of the trace for all copies, or the whole trace.

use std::{fs::File, path::Path, time::Duration};

use anyhow::{Context as _, ensure};
use flint_lab::{
    Arrival, Random,
    trace::{self, Azure2019, Azure2021, FunctionRow, Part, Replay, WholeTrace, apps, excerpt, select},
};

use super::{Manifest, Run, Variant, result::Conditions};
use crate::{
    bench::{
        asked::{at_least_one, between},
        holds::Holds,
        run::Size,
    },
    failure::Failure,
};

/// The trace's longest calls are cut to this.
const LONGEST: Duration = Duration::from_secs(30);
/// Photons' number of copies: fewer share less of what a server and its snapshots take.
const COPIES: usize = 20;
/// Calls in steady state for E6 and E7 to be judged: the slowest of a few are chance.
const FEWEST_CALLS: usize = 100;
/// The largest speed-up of which something is promised.
const FASTEST: f64 = 60.0;
/// Apps drawn for a whole trace: many more than are kept.
const DRAWN: usize = 2000;
/// Maximum number of calls: each is held in memory with its request and record, and at a thousand a second
/// they take a quarter of an hour.
const MOST_CALLS: f64 = 1e6;
/// Two weeks, the length of the traces.
const MOST_MINUTES: f64 = 14.0 * 24.0 * 60.0;

/// When which function is called.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    /// `which` is a call's index in `calls`.
    pub(super) arrivals: Vec<Arrival>,
    /// A function's number, and the call's duration in ms, if the trace has it.
    pub(super) calls: Vec<(usize, Option<u64>)>,
    pub(super) functions: usize,
    pub(super) length: Duration,
    /// Its description.
    pub(super) note: String,
}

/// The options from the command line.
pub(super) struct Wanted {
    source: Source,
    /// Every call of every function; otherwise Photons' procedure.
    whole: bool,
    /// The value of `--set trace=`.
    trace: Option<String>,
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
        let minutes = between(1.0, MOST_MINUTES, run, "minutes", 59.0)?;
        Ok(Self {
            source,
            whole,
            trace: set("trace").map(str::to_owned),
            copies: at_least_one(run, "copies", if quick { 3.0 } else { COPIES as f64 })? as usize,
            minutes: minutes as usize,
            compression: at_least_one(run, "compress", if quick { 300.0 } else { 10.0 })?,
            part: Part {
                length: Duration::from_secs(60 * minutes as u64),
                functions: at_least_one(run, "functions-at-most", if quick { 6.0 } else { 60.0 })? as usize,
                calls: between(1.0, MOST_CALLS, run, "calls", if quick { 200.0 } else { 10_000.0 })? as usize,
            },
            seed: run.effort.seed,
        })
    }

    pub(super) fn conditions(&self, size: Size) -> Conditions {
        let (of_calls, of_memory) = (self.holds(size), self.holds_of_memory(size));
        Conditions { of_calls, fewest_calls: FEWEST_CALLS, of_memory }
    }

    /// The conditions of E6 and E7 but for the number of calls: Photons' procedure with the built-in trace,
    /// not too fast, and functions of the usual size.
    fn holds(&self, size: Size) -> Holds {
        let other = match (&self.trace, self.whole) {
            (Some(trace), _) => Some(format!("--set trace={trace}")),
            (None, true) => Some("--set procedure=whole".to_owned()),
            (None, false) => None,
        };
        Holds::default()
            .of_the_procedure("Photons' procedure with Flint's own trace", other.as_deref())
            .of_the_size(Some(size.as_str()))
            .of_compression(FASTEST, self.compression)
    }

    /// The conditions of E8: the same, and Photons' number of copies.
    fn holds_of_memory(&self, size: Size) -> Holds {
        self.holds(size).of_copies(COPIES, self.copies)
    }

    /// A whole trace has durations, which not every workload can be told.
    pub(super) fn suits(&self, workload: &Manifest) -> bool {
        !self.whole || workload.duration.is_some()
    }

    pub(super) fn schedule(&self, variant: &Variant) -> anyhow::Result<Schedule> {
        let mut schedule = if self.whole { self.all() } else { self.photons(variant) }?;
        match &self.source {
            Source::Of2019(trace) if trace.taken_as_zero > 0 => schedule.note.push_str(&format!(
                "; {} durations of the trace that are negative or no numbers were taken as 0",
                trace.taken_as_zero
            )),
            _ => {}
        }
        Ok(schedule)
    }

    /// The number of replayed minutes: as requested, as far as the trace has them.
    fn minutes(&self, has: usize) -> (usize, String) {
        match self.minutes > has {
            true => (has, format!("{has} minutes, which are all that the trace has")),
            false => (self.minutes, format!("{} minutes", self.minutes)),
        }
    }

    /// Copies of one function, one after the other.
    fn photons(&self, variant: &Variant) -> anyhow::Result<Schedule> {
        let row = match &self.source {
            Source::Of2019(trace) => photons_choice(trace, variant)?.clone(),
            Source::Of2021(_) | Source::Drawn => synthetic(self.seed)?,
        };
        let (minutes, so_long) = self.minutes(row.minutes.len());
        let replay = Replay { copies: self.copies, minutes, compression: self.compression };
        let all = replay.calls(&row);
        ensure!(all > 0, "the trace's function has no call in its first {minutes} minutes");
        ensure!(
            all as f64 <= MOST_CALLS,
            "{} copies of the trace's function would make {all} calls in {minutes} minutes, and a run makes {MOST_CALLS} at most: fewer --set copies= or --set minutes=",
            self.copies
        );
        let note = format!(
            "{} copies of trace function {}, {} calls in {so_long} each, {} × as fast",
            self.copies,
            row.function.chars().take(8).collect::<String>(),
            all / self.copies as u64,
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
        let (whole, has) = match &self.source {
            Source::Of2019(trace) => (WholeTrace::of_2019(trace, self.part, self.seed), trace.minutes()),
            Source::Of2021(trace) => {
                let last = trace.calls.last().map_or(0, |call| call.start.as_secs() / 60 + 1);
                (WholeTrace::of_2021(trace, self.part), last as usize)
            }
            Source::Drawn => {
                let hour = Random::new(self.seed).below(24) as u32;
                let apps = apps(self.seed, DRAWN);
                let from = Duration::from_secs(3600) * hour;
                (WholeTrace::of_apps(&apps, from, self.part, self.seed), usize::MAX)
            }
        };
        ensure!(!whole.calls.is_empty(), "the trace has no call in its first {} minutes", self.minutes);
        let note = self.note(&whole, has);
        let fast = whole.compressed(self.compression);
        let calls: Vec<_> = fast
            .calls
            .iter()
            .map(|call| (call.function, Some(call.took.min(LONGEST).as_millis() as u64)))
            .collect();
        let arrivals: Vec<_> =
            fast.calls.iter().enumerate().map(|(which, call)| Arrival { at: call.at, which }).collect();
        let length = arrivals.last().map_or(Duration::ZERO, |last| last.at);
        Ok(Schedule { arrivals, calls, functions: fast.functions.len(), length, note })
    }

    /// Which part of the trace that is, and how it deviates from the trace.
    fn note(&self, whole: &WholeTrace, has: usize) -> String {
        let (_, so_long) = self.minutes(has);
        let part = match whole.cut {
            None => format!("in {so_long}"),
            Some(at) => format!(
                "in the first {:.1} of {so_long}: what comes after so many calls is left out (--set calls=N for more)",
                at.as_secs_f64() / 60.0
            ),
        };
        let shortened =
            whole.calls.iter().filter(|call| call.took.div_f64(self.compression) > LONGEST).count();
        let assumed = match whole.assumed {
            0 => String::new(),
            functions => format!(
                "; of {functions} of the functions the trace does not say how long calls take: 100 ms are assumed"
            ),
        };
        format!(
            "{} calls of {} functions {part}; {} × as fast, {shortened} calls cut to {} s{assumed}",
            whole.calls.len(),
            whole.functions.len(),
            self.compression,
            LONGEST.as_secs()
        )
    }
}

/// The function with the nearest memory.
fn photons_choice<'a>(trace: &'a Azure2019, variant: &Variant) -> anyhow::Result<&'a FunctionRow> {
    ensure!(
        trace.has_memory(),
        "the trace has no memory.csv, by which Photons' procedure chooses a function: add it, or replay all functions with --set procedure=whole"
    );
    let memory = variant
        .functions
        .iter()
        .find(|function| function.name == variant.entry)
        .and_then(|function| function.memory_mb);
    let most_mb = memory.unwrap_or(256) as f64;
    select(trace, trace::Wanted { least_mb: most_mb / 2.0, most_mb })
        .context(
        "no function of the trace that memory.csv knows has more than 10 and fewer than 100 calls in its first 59 minutes",
    )
}

fn open(path: &Path) -> anyhow::Result<File> {
    File::open(path).with_context(|| format!("opening {}", path.display()))
}

/// A day of the 2019 trace.
fn tables(folder: &Path) -> anyhow::Result<Azure2019> {
    let open = |name: &str| {
        open(&folder.join(name))
            .context("the tables of a day are named invocations.csv, durations.csv and memory.csv")
    };
    let optional = |name: &str| if folder.join(name).exists() { open(name).map(Some) } else { Ok(None) };
    Ok(Azure2019::read(open("invocations.csv")?, optional("durations.csv")?, optional("memory.csv")?)?)
}

/// The first drawn app with the number of calls that Photons requires, from a random time of day on.
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
        Wanted { source, whole, trace: None, copies: 2, minutes: 59, compression: 60.0, part, seed: 1 }
    }

    fn variant() -> Variant {
        let function = serde_json::json!({ "name": "f", "code": "f.js", "kind": "nodejs", "memory_mb": 256 });
        let variant = serde_json::json!({ "name": "node", "entry": "f", "functions": [function] });
        serde_json::from_value(variant).unwrap()
    }

    #[test]
    fn the_note_says_which_part_of_the_trace_it_is() {
        let excerpt = || Source::Of2019(excerpt::of_2019().unwrap());
        let cut = wanted(excerpt(), true).all().unwrap();
        let minutes = cut.length.as_secs_f64();
        assert!(
            cut.note.contains(&format!("100 calls of 5 functions in the first {minutes:.1} of 59 minutes")),
            "{}",
            cut.note
        );
        let mut all = wanted(excerpt(), true);
        (all.minutes, all.part.length, all.part.calls) = (600, Duration::from_secs(36_000), 100_000);
        let all = all.all().unwrap();
        assert!(
            all.note.contains("functions in 60 minutes, which are all that the trace has;"),
            "{}",
            all.note
        );
        let mut copies = wanted(excerpt(), false);
        copies.minutes = 600;
        let copies = copies.schedule(&variant()).unwrap();
        assert!(
            copies.note.contains("calls in 60 minutes, which are all that the trace has each"),
            "{}",
            copies.note
        );
        assert_eq!(copies.length, Duration::from_millis(60_500));
    }

    #[test]
    fn another_trace_procedure_or_size_is_not_what_is_promised() {
        let excerpt = |whole| wanted(Source::Of2019(excerpt::of_2019().unwrap()), whole);
        assert_eq!(excerpt(false).holds(Size::Small).unjudged(), None);
        let drawn = Wanted { trace: Some("synthetic".into()), ..excerpt(false) };
        for (wanted, size, why) in [
            (excerpt(true), Size::Small, "procedure=whole"),
            (drawn, Size::Small, "trace=synthetic"),
            (excerpt(false), Size::Test, "of the size test"),
        ] {
            let said = wanted.holds(size).unjudged().unwrap().to_string();
            assert!(said.ends_with(why), "{said}");
        }
        let fast = Wanted { compression: 300.0, ..excerpt(false) };
        let said = fast.holds(Size::Small).unjudged().unwrap().to_string();
        assert!(said.contains("divided by 60 at most"), "{said}");
        let all = Wanted { copies: 20, ..excerpt(false) };
        assert_eq!(all.holds_of_memory(Size::Small).unjudged(), None);
        let few = Wanted { copies: 19, ..excerpt(false) };
        assert_eq!(few.holds(Size::Small).unjudged(), None);
        let said = few.holds_of_memory(Size::Small).unjudged().unwrap().to_string();
        assert_eq!(said, "not measured: it is promised of 20 copies or more, and there were 19");
    }

    #[test]
    fn a_trace_of_more_calls_than_a_run_makes_is_refused_before_they_are_drawn() {
        let minutes: String = (1..=60).map(|minute| format!(",{minute}")).collect();
        let text =
            format!("HashApp,HashFunction,Trigger{minutes}\na,f,http,20{},4000000000\n", ",0".repeat(58));
        let memory = "HashApp,AverageAllocatedMb,AverageAllocatedMb_pct99\na,100,200\n";
        let trace = |memory: Option<&[u8]>| Azure2019::read(text.as_bytes(), None, memory).unwrap();
        let mut long = wanted(Source::Of2019(trace(Some(memory.as_bytes()))), false);
        assert!(long.schedule(&variant()).is_ok());
        long.minutes = 120;
        let refused = long.schedule(&variant()).unwrap_err().to_string();
        assert!(refused.contains("would make 8000000040 calls in 60 minutes"), "{refused}");
        let refused =
            wanted(Source::Of2019(trace(None)), false).schedule(&variant()).unwrap_err().to_string();
        assert!(refused.contains("the trace has no memory.csv"), "{refused}");
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

    /// Each copy's first call is not steady.
    #[test]
    fn the_quick_form_of_e6_and_e7_has_enough_calls() {
        let excerpt = Source::Of2019(excerpt::of_2019().unwrap());
        let quick = Wanted { copies: 20, minutes: 25, ..wanted(excerpt, false) };
        let calls = quick.schedule(&variant()).unwrap().arrivals.len();
        assert!(calls - quick.copies >= FEWEST_CALLS, "{calls}");
    }

    #[test]
    fn copies_are_called_by_their_numbers() {
        let wanted = wanted(Source::Of2019(excerpt::of_2019().unwrap()), false);
        let schedule = wanted.schedule(&variant()).unwrap();
        assert_eq!((schedule.functions, schedule.calls.as_slice()), (2, &[(0, None), (1, None)][..]));
        assert!(schedule.arrivals.iter().all(|arrival| arrival.which < 2) && schedule.arrivals.len() > 20);
    }
}
