//! Ratios and targets from the measurements.

use std::collections::BTreeMap;

use flint_lab::{Comparison, Target, Unjudged};

use super::{
    Memory,
    memory::Held,
    rate::Rate,
    rounds::Cell,
    series::Series,
    way::{
        FORK_NEVER, FORK_NEXT, FORK_WARM, PROCESS, SMALL_PAGES, SPAWN_COLD, SPAWN_NEVER, SPAWN_NEXT, STANDBY,
        UNWARMED, WAYS, Way,
    },
    workload::Sizes,
};
use crate::bench::holds::Holds;

/// All measurements.
pub(super) struct Measured<'a> {
    /// The sizes of the inputs.
    pub(super) sizes: Sizes,
    pub(super) cells: &'a [Cell],
    pub(super) memory: &'a [Memory],
    pub(super) rates: &'a [Rate],
}

/// Number of instances for which memory is promised.
const HELD: u64 = 20;

/// The steps from a fresh process to a clone, each with its predecessor.
const FACTORS: [(&str, &str, &str); 4] = [
    ("+ sandbox", PROCESS, SPAWN_NEVER),
    ("+ snapshot after loading", SPAWN_NEVER, UNWARMED),
    ("+ snapshot after compiling", UNWARMED, SMALL_PAGES),
    ("+ huge pages", SMALL_PAGES, FORK_NEVER),
];

impl Measured<'_> {
    /// Cells without failures: nothing is compared or judged for an arm that failed.
    fn cells_of<'a>(&'a self, function: &str) -> impl Iterator<Item = &'a Cell> {
        self.cells.iter().filter(move |cell| cell.workload.name == function && cell.target.is_ok())
    }

    fn series(&self, arm: &str, function: &str) -> Option<&Series> {
        self.cells_of(function).find(|cell| cell.way.arms().any(|name| name == arm))?.series(arm)
    }

    fn times(&self, slow: &str, fast: &str, function: &str) -> Option<f64> {
        self.series(slow, function)?.times(self.series(fast, function)?)
    }

    /// The conditions of promises about single calls of these arms of a function.
    fn of_calls(&self, function: &str, arms: &[&str]) -> Holds {
        let calls = arms.iter().map(|arm| Some(self.series(arm, function)?.latencies().len()));
        let calls: Option<Vec<usize>> = calls.collect();
        // A function that does nothing has one size.
        let is_smaller = self.sizes != Sizes::FULL && !function.starts_with("empty");
        Holds::default()
            .of_the_procedure("FaaSdom's inputs", is_smaller.then_some("of smaller ones (--set sizes=quick)"))
            .of_values(calls.and_then(|calls| calls.into_iter().min()))
    }

    /// The memory of the largest measured number of instances.
    fn most_held<'a>(&'a self, way: &'a str, function: &'a str) -> Option<(&'a Held, &'a Memory)> {
        self.held_by(way, function).max_by_key(|(held, _)| held.live)
    }

    fn held_by<'a>(
        &'a self,
        way: &'a str,
        function: &'a str,
    ) -> impl Iterator<Item = (&'a Held, &'a Memory)> {
        let of = self.memory.iter().filter(move |one| one.way.name == way && one.function == function);
        of.filter_map(|one| Some((one.held.as_ref().ok()?, one)))
    }

    /// Closed loops on clones of this function that have figures.
    fn loops<'a>(&'a self, function: &'a str) -> impl Iterator<Item = (f64, &'a Rate)> {
        let of_clones = move |rate: &&Rate| rate.arm == rate_arm(FORK_NEVER) && rate.function == function;
        self.rates.iter().filter(of_clones).filter_map(|rate| Some((rate.calls_per_cpu_s()?, rate)))
    }

    pub(super) fn ratios(&self) -> BTreeMap<String, f64> {
        let mut ratios = BTreeMap::new();
        let mut say = |name: String, ratio: Option<f64>| {
            if let Some(ratio) = ratio.filter(|ratio| ratio.is_finite()) {
                ratios.insert(name, ratio);
            }
        };
        let mut functions: Vec<_> = self.cells.iter().map(|cell| cell.workload.name).collect();
        functions.dedup();
        for function in functions {
            for (way, arm) in WAYS.iter().filter(|way| !way.factor).flat_map(of_arms) {
                // Calls that follow another call are only compared with such calls.
                let bases: &[&str] =
                    if way.is_cold(arm) { &[SPAWN_NEVER, SPAWN_COLD] } else { &[SPAWN_NEXT] };
                for base in bases.iter().filter(|base| **base != arm) {
                    say(format!("{function}: {base} / {arm}"), self.times(base, arm, function));
                }
            }
            for (step, from, to) in FACTORS {
                say(format!("factor {function}: {step} ({from} / {to})"), self.times(from, to, function));
            }
            for way in [FORK_NEVER, UNWARMED] {
                say(
                    format!("{function}: first call in {way} / steady call"),
                    self.first_to_steady(way, function),
                );
            }
            let standby = self.cells_of(function).find(|cell| cell.way.name == STANDBY);
            if let Some((from_standby, all)) =
                standby.map(|cell| cell.standby_starts).filter(|(_, all)| *all > 0.0)
            {
                say(
                    format!("{function}: share of {STANDBY} served by a standby clone"),
                    Some(from_standby / all),
                );
            }
        }
        for Memory { way, function, live, .. } in self.memory {
            let at = |other: &str| {
                self.held_by(other, function)
                    .find(|(held, _)| held.live == *live)
                    .map(|(held, _)| held.instances.pss as f64)
            };
            for (step, from, to) in FACTORS.iter().filter(|(.., to)| *to == way.name) {
                let ratio = at(from).zip(at(to)).map(|(from, to)| from / to);
                say(format!("factor memory {function} × {live}: {step} ({from} / {to}, PSS)"), ratio);
            }
        }
        for rate in self.rates {
            let function = rate.function;
            say(
                format!("{} {function} at {}: calls a second of CPU time", rate.arm, rate.concurrency),
                rate.calls_per_cpu_s(),
            );
        }
        ratios
    }

    /// Compares a fresh process with a clone, and each step in between with its predecessor, call by call.
    pub(super) fn comparisons(&self) -> Vec<Comparison> {
        let mut functions: Vec<_> = self.cells.iter().map(|cell| cell.workload.name).collect();
        functions.dedup();
        let pairs = [(SPAWN_NEVER, FORK_NEVER), (SPAWN_COLD, FORK_NEVER), (SPAWN_NEXT, FORK_NEXT)];
        let pairs = pairs.into_iter().chain(FACTORS.map(|(_, from, to)| (from, to)));
        let of = |function: &str, a: &str, b: &str| {
            let (left, right) =
                (self.series(a, function)?.latencies(), self.series(b, function)?.latencies());
            Comparison::of(function, (a, &left), (b, &right))
        };
        let all = functions.iter().flat_map(|&function| pairs.clone().map(move |(a, b)| (function, a, b)));
        all.filter_map(|(function, a, b)| of(function, a, b)).collect()
    }

    /// The ratio of first calls of new instances to calls of a warm one, both right after another call, so
    /// that they differ only in the instance.
    fn first_to_steady(&self, way: &str, function: &str) -> Option<f64> {
        let next = Way::named(way)?.next?;
        Some(self.series(next, function)?.first_us()? / self.series(FORK_WARM, function)?.steady_us()?)
    }

    pub(super) fn targets(&self) -> Vec<Target> {
        let ms = |arm, q| Some(self.series(arm, "empty-node")?.quantile_us(q)? / 1e3);
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let latency = |number, arm, name: &str, q, most| {
            let holds = self.of_calls("empty-node", &[arm]);
            let target = Target::at_most(name, ms(arm, q), most).of(number);
            target.about(arm, Some("empty-node")).unless(holds.unjudged())
        };
        let clone =
            |q| format!("empty Node.js clone after a rest, request to response, p{:.0}, ms", q * 100.0);
        let standby = |q| format!("the same with a standby ready, p{:.0}, ms", q * 100.0);
        let mut targets = vec![
            latency("C1", FORK_NEVER, &clone(0.5), 0.5, 2.0),
            latency("C1", FORK_NEVER, &clone(0.99), 0.99, 4.0),
            latency("C2", STANDBY, &standby(0.5), 0.5, 0.6),
            latency("C2", STANDBY, &standby(0.99), 0.99, 2.0),
        ];
        for function in ["fact-node", "matrix-mult-node", "fact-python", "matrix-mult-python"] {
            let name = format!("first call in a clone, of a steady call, {function}");
            let holds = self.of_calls(function, &[FORK_NEXT, FORK_WARM]);
            let target = Target::at_most(&name, self.first_to_steady(FORK_NEVER, function), 1.2);
            let arms = [FORK_NEVER, FORK_NEXT, FORK_WARM];
            let target =
                arms.into_iter().fold(target.of("C3"), |target, arm| target.about(arm, Some(function)));
            targets.push(target.unless(holds.unjudged()));
        }
        let faster = |number, function: &str, least| {
            let name = format!("{function} after a rest, times faster than a fresh process");
            let holds = self.of_calls(function, &[SPAWN_NEVER, FORK_NEVER]);
            let times = self.times(SPAWN_NEVER, FORK_NEVER, function);
            let target = Target::at_least(&name, times, least).of(number);
            let function = Some(function);
            target.about(SPAWN_NEVER, function).about(FORK_NEVER, function).unless(holds.unjudged())
        };
        let memory_of_clones = memory_arm(FORK_NEVER);
        let held = |function, language, most| {
            let name = format!("private memory of an empty {language} clone, MiB");
            let measured = self.most_held(FORK_NEVER, function);
            let each = measured.map(|(held, _)| mib(held.instances.private) / held.live as f64);
            let holds = Holds::default().of_instances(HELD, FORK_NEVER, measured.map(|of| of.0.live as u64));
            let why = holds.unjudged().or_else(|| measured?.1.spoilt.clone());
            Target::at_most(&name, each, most).of("C7").about(&memory_of_clones, Some(function)).unless(why)
        };
        let most_a_second = self.loops("empty-node").map(|(rate, _)| rate).max_by(f64::total_cmp);
        let noisy_loops = self.loops("empty-node").find_map(|(_, rate)| rate.spoilt.clone());
        let of_500 = self.held_by(FORK_NEVER, "wait-node").find(|(held, _)| held.live == 500);
        let all_500 = of_500.and_then(|(held, _)| {
            let zygote = held.zygote.as_ref().ok()?;
            Some(mib(held.instances.pss + zygote.pss))
        });
        let why_not_500 = of_500.and_then(|(held, memory)| match &held.zygote {
            Err(why) => Some(Unjudged::NotMeasured(why.clone())),
            Ok(_) => memory.spoilt.clone(),
        });
        targets.extend([
            faster("C4", "empty-node", 20.0),
            faster("C4", "empty-python", 20.0),
            faster("C5", "matrix-mult-numba", 100.0),
            Target::at_least("empty Node.js clones a second of CPU time", most_a_second, 400.0)
                .of("C6")
                .about(&rate_arm(FORK_NEVER), Some("empty-node"))
                .unless(noisy_loops),
            held("wait-node", "Node.js", 1.0),
            held("wait-python", "Python", 2.0),
            Target::at_most("500 live Node.js clones and their zygote, PSS, MiB", all_500, 700.0)
                .of("C8")
                .about(&memory_of_clones, Some("wait-node"))
                .unless(why_not_500),
        ]);
        targets
    }
}

/// A way with each of its arms.
fn of_arms(way: &'static Way) -> impl Iterator<Item = (&'static Way, &'static str)> {
    way.arms().map(move |arm| (way, arm))
}

pub(super) fn rate_arm(way: &str) -> String {
    format!("rate-{way}")
}

pub(super) fn memory_arm(way: &str) -> String {
    format!("memory-{way}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flint_lab::TreeMemory;

    use super::*;
    use crate::bench::{
        caller::Stations,
        coldstart::{rate::tests::rate, rounds, way::FORK_COLD, workload},
    };

    /// Measurements of single calls only.
    const fn of_cells(sizes: Sizes, cells: &[Cell]) -> Measured<'_> {
        Measured { sizes, cells, memory: &[], rates: &[] }
    }

    /// The first target with this number.
    fn target(measured: &Measured<'_>, number: &str) -> Target {
        let mut targets = measured.targets().into_iter();
        targets.find(|target| target.promise.as_deref() == Some(number)).unwrap()
    }

    #[test]
    fn what_was_not_measured_is_no_figure() {
        let nothing = of_cells(Sizes::FULL, &[]);
        assert!(nothing.ratios().is_empty() && nothing.comparisons().is_empty());
        let targets = nothing.targets();
        assert!(
            targets.len() == 15
                && targets.iter().all(|target| target.met.is_none() && target.value.is_none())
        );
    }

    /// A cell of the empty Node.js function with calls of `us`, one per round, each followed by another one
    /// of half the time.
    fn cell(way: &'static str, us: &[u64]) -> Cell {
        let empty = workload::all(Sizes::QUICK, None).remove(0);
        let mut cell = Cell::new(
            Way::named(way).unwrap(),
            empty,
            Ok(rounds::Target::Process { argv: Vec::new(), code: "nowhere".into() }),
        );
        let stations = Stations { start_us: Some(1), ..Stations::default() };
        for &us in us {
            for (series, us) in [(&mut cell.cold, us), (&mut cell.next, us / 2)] {
                series.begin_round();
                series.add(Duration::from_micros(us), stations);
            }
        }
        cell
    }

    #[test]
    fn c1_and_c4_are_judged_by_calls_after_a_rest_and_by_five_of_them() {
        let judged = |calls: usize| {
            let cells = [cell(SPAWN_NEVER, &vec![40_000; calls]), cell(FORK_NEVER, &vec![1000; calls])];
            // For a function that does nothing, the sizes make no difference.
            let measured = of_cells(Sizes::QUICK, &cells);
            let next = measured.ratios().get("empty-node: spawn-never-next / fork-never-next").copied();
            (target(&measured, "C1"), target(&measured, "C4"), next)
        };
        let (c1, c4, next) = judged(5);
        assert_eq!((c1.value, c1.met, c4.value, c4.met), (Some(1.0), Some(true), Some(40.0), Some(true)));
        assert_eq!(next, Some(40.0));
        let mut failed = [cell(SPAWN_NEVER, &[40_000; 5]), cell(FORK_NEVER, &[1000; 5])];
        failed[1].target = Err("wrong answer in the sixth round".into());
        let failed = of_cells(Sizes::FULL, &failed);
        assert!(failed.ratios().is_empty());
        assert!(failed.targets().iter().all(|target| target.met.is_none()));
        let (c1, c4, _) = judged(4);
        let why = "there are too few values, 4: it takes 5, by --repeat";
        let why = Some(Unjudged::NotMeasured(why.into()));
        assert_eq!((c1.met, &c1.unjudged), (None, &why));
        assert_eq!((c4.met, &c4.unjudged), (None, &why));
    }

    #[test]
    fn c3_is_judged_by_the_full_sizes() {
        let mut workloads = workload::all(Sizes::QUICK, None);
        workloads.retain(|workload| workload.name == "fact-node");
        let cell = |way: &str| {
            let target = rounds::Target::Process { argv: Vec::new(), code: "nowhere".into() };
            Cell::new(Way::named(way).unwrap(), workloads[0].clone(), Ok(target))
        };
        let (mut clone, mut stays) = (cell(FORK_NEVER), cell(FORK_WARM));
        for _ in 0..5 {
            let call = |start_us| Stations { start_us, run_us: Some(100), ..Stations::default() };
            clone.next.add(Duration::from_micros(150), call(Some(50)));
            stays.warm.add(Duration::from_micros(100), call(None));
        }
        let cells = [clone, stays];
        let full = target(&of_cells(Sizes::FULL, &cells), "C3");
        assert_eq!((full.value, full.met), (Some(1.0), Some(true)));
        let quick = target(&of_cells(Sizes::QUICK, &cells), "C3");
        let why = "it is promised of FaaSdom's inputs, and this is of smaller ones (--set sizes=quick)";
        assert_eq!((quick.met, quick.unjudged), (None, Some(Unjudged::NotMeasured(why.into()))));
    }

    #[test]
    fn loops_and_memory_in_noise_are_not_judged_and_neither_is_a_zygote_that_is_not_known() {
        let noise = |what: &str| Some(Unjudged::Noise(format!("{what}: others")));
        let unknown = || Err("nobody knows".to_owned());
        let judged = |zygote: Result<u64, String>, of_memory, of_rate| {
            let memory = |bytes| TreeMemory { rss: bytes, pss: bytes, private: bytes };
            let held = Held { live: 500, instances: memory(250 << 20), zygote: zygote.map(memory) };
            let memory = Memory {
                way: Way::named(FORK_NEVER).unwrap(),
                function: "wait-node",
                live: 500,
                held: Ok(held),
                spoilt: of_memory,
            };
            let measured = Measured {
                sizes: Sizes::FULL,
                cells: &[],
                memory: &[memory],
                rates: &[rate("rate-fork-never", 1000.0, of_rate)],
            };
            ["C6", "C7", "C8"].map(|number| {
                let target = target(&measured, number);
                (target.value, target.unjudged)
            })
        };
        let figures = [1000.0, 0.5, 251.0].map(|value| (Some(value), None));
        assert_eq!(judged(Ok(1 << 20), None, None), figures);
        let [c6, c7, c8] = judged(Ok(1 << 20), noise("memory"), noise("loops"));
        assert_eq!((c6, c7, c8), ((None, noise("loops")), (None, noise("memory")), (None, noise("memory"))));
        let [c6, c7, c8] = judged(unknown(), None, None);
        assert_eq!((c6.1, c7.1, c8.0), (None, None, None));
        assert_eq!(c8.1, Some(Unjudged::NotMeasured("nobody knows".into())));
    }

    #[test]
    fn every_factor_and_every_baseline_is_an_arm() {
        let arms: Vec<_> = WAYS.iter().flat_map(Way::arms).collect();
        let steps = FACTORS.iter().flat_map(|(_, from, to)| [*from, *to]);
        for name in steps.chain([SPAWN_NEVER, SPAWN_COLD, FORK_COLD, FORK_WARM, STANDBY]) {
            assert!(arms.contains(&name), "{name}");
        }
    }
}
