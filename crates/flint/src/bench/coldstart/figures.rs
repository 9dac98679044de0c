//! Ratios and targets: what was measured, compared.

use std::collections::BTreeMap;

use flint_lab::{Comparison, Target};

use super::{
    memory::Held,
    rate::Rate,
    rounds::Cell,
    series::Series,
    way::{
        FORK_NEVER, FORK_WARM, PROCESS, SMALL_PAGES, SPAWN_COLD, SPAWN_NEVER, STANDBY, UNWARMED, WAYS, Way,
    },
};

/// Everything that was measured.
pub(super) struct Measured<'a> {
    pub(super) cells: &'a [Cell],
    /// Arm, function and the memory of so many instances.
    pub(super) held: &'a [(&'static Way, &'static str, Held)],
    pub(super) rates: &'a [Rate],
}

/// The steps from a fresh process to a clone, each with the one before it.
const FACTORS: [(&str, &str, &str); 4] = [
    ("+ sandbox", PROCESS, SPAWN_NEVER),
    ("+ snapshot after loading", SPAWN_NEVER, UNWARMED),
    ("+ snapshot after compiling", UNWARMED, SMALL_PAGES),
    ("+ huge pages", SMALL_PAGES, FORK_NEVER),
];

impl Measured<'_> {
    fn series(&self, arm: &str, function: &str) -> Option<&Series> {
        let of = |cell: &&Cell| cell.workload.name == function && cell.way.arms().any(|name| name == arm);
        self.cells.iter().find(of)?.series(arm)
    }

    fn times(&self, slow: &str, fast: &str, function: &str) -> Option<f64> {
        self.series(slow, function)?.times(self.series(fast, function)?)
    }

    /// Memory of the most instances at once that were measured.
    fn most_held<'a>(&'a self, way: &'a str, function: &'a str) -> Option<&'a Held> {
        self.held_by(way, function).max_by_key(|held| held.live)
    }

    fn held_by<'a>(&'a self, way: &'a str, function: &'a str) -> impl Iterator<Item = &'a Held> {
        self.held
            .iter()
            .filter(move |(of, name, _)| of.name == way && *name == function)
            .map(|(.., held)| held)
    }

    /// Clones of which one second of CPU time makes and serves the most.
    fn most_per_cpu_second(&self, function: &str) -> Option<f64> {
        let of_clones =
            self.rates.iter().filter(|rate| rate.arm == rate_arm(FORK_NEVER) && rate.function == function);
        of_clones.filter_map(Rate::calls_per_cpu_s).max_by(f64::total_cmp)
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
            for arm in WAYS.iter().filter(|way| !way.factor).flat_map(Way::arms) {
                for base in [SPAWN_NEVER, SPAWN_COLD] {
                    if arm != base {
                        say(format!("{function}: {base} / {arm}"), self.times(base, arm, function));
                    }
                }
            }
            for (step, from, to) in FACTORS {
                say(format!("factor {function}: {step} ({from} / {to})"), self.times(from, to, function));
            }
            for arm in [FORK_NEVER, UNWARMED] {
                say(
                    format!("{function}: first call in {arm} / steady call"),
                    self.first_to_steady(arm, function),
                );
            }
            let standby =
                self.cells.iter().find(|cell| cell.way.name == STANDBY && cell.workload.name == function);
            if let Some((from_standby, all)) =
                standby.map(|cell| cell.standby_starts).filter(|(_, all)| *all > 0.0)
            {
                say(
                    format!("{function}: share of {STANDBY} served by a standby clone"),
                    Some(from_standby / all),
                );
            }
        }
        for (way, function, held) in self.held {
            let at = |other: &str| {
                self.held_by(other, function)
                    .find(|other| other.live == held.live)
                    .map(|held| held.instances.pss as f64)
            };
            for (step, from, to) in FACTORS.iter().filter(|(.., to)| *to == way.name) {
                let ratio = at(from).zip(at(to)).map(|(from, to)| from / to);
                say(format!("factor memory {function} × {}: {step} ({from} / {to}, PSS)", held.live), ratio);
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

    /// A fresh process beside a clone, and each step between them beside the one before it, call by call.
    pub(super) fn comparisons(&self) -> Vec<Comparison> {
        let mut functions: Vec<_> = self.cells.iter().map(|cell| cell.workload.name).collect();
        functions.dedup();
        let pairs = [(SPAWN_NEVER, FORK_NEVER), (SPAWN_COLD, FORK_NEVER)];
        let pairs = pairs.into_iter().chain(FACTORS.map(|(_, from, to)| (from, to)));
        let of = |function: &str, a: &str, b: &str| {
            let (left, right) =
                (self.series(a, function)?.latencies(), self.series(b, function)?.latencies());
            Comparison::of(function, (a, &left), (b, &right))
        };
        let all = functions.iter().flat_map(|&function| pairs.clone().map(move |(a, b)| (function, a, b)));
        all.filter_map(|(function, a, b)| of(function, a, b)).collect()
    }

    /// The first call of a new instance beside the calls of one that stays.
    fn first_to_steady(&self, arm: &str, function: &str) -> Option<f64> {
        Some(self.series(arm, function)?.first_us()? / self.series(FORK_WARM, function)?.steady_us()?)
    }

    pub(super) fn targets(&self) -> Vec<Target> {
        let ms = |arm, q| Some(self.series(arm, "empty-node")?.quantile_us(q)? / 1e3);
        let mib = |way, function| {
            let held = self.most_held(way, function)?;
            Some(held.instances.private as f64 / held.live as f64 / f64::from(1 << 20))
        };
        let all_500 = self.held_by(FORK_NEVER, "wait-node").find(|held| held.live == 500);
        let all_500 = all_500.map(|held| (held.instances.pss + held.zygote.pss) as f64 / f64::from(1 << 20));
        let mut targets = vec![
            Target::at_most("empty Node.js clone, request to response, p50, ms", ms(FORK_NEVER, 0.5), 2.0)
                .of("C1"),
            Target::at_most("empty Node.js clone, request to response, p99, ms", ms(FORK_NEVER, 0.99), 4.0)
                .of("C1"),
            Target::at_most("the same with a standby ready, p50, ms", ms(STANDBY, 0.5), 0.6).of("C2"),
            Target::at_most("the same with a standby ready, p99, ms", ms(STANDBY, 0.99), 2.0).of("C2"),
        ];
        for function in ["fact-node", "matrix-mult-node", "fact-python", "matrix-mult-python"] {
            let name = format!("first call in a clone, of a steady call, {function}");
            targets.push(Target::at_most(&name, self.first_to_steady(FORK_NEVER, function), 1.2).of("C3"));
        }
        let times = |function| self.times(SPAWN_NEVER, FORK_NEVER, function);
        targets.extend([
            Target::at_least("empty-node, times faster than a fresh process", times("empty-node"), 20.0)
                .of("C4"),
            Target::at_least("empty-python, times faster than a fresh process", times("empty-python"), 20.0)
                .of("C4"),
            Target::at_least(
                "matrix-mult-numba, times faster than a fresh process",
                times("matrix-mult-numba"),
                100.0,
            )
            .of("C5"),
            Target::at_least(
                "empty Node.js clones a second of CPU time",
                self.most_per_cpu_second("empty-node"),
                400.0,
            )
            .of("C6"),
            Target::at_most(
                "private memory of an empty Node.js clone, MiB",
                mib(FORK_NEVER, "wait-node"),
                1.0,
            )
            .of("C7"),
            Target::at_most(
                "private memory of an empty Python clone, MiB",
                mib(FORK_NEVER, "wait-python"),
                2.0,
            )
            .of("C7"),
            Target::at_most("500 live Node.js clones and their zygote, PSS, MiB", all_500, 700.0).of("C8"),
        ]);
        targets
    }
}

pub(super) fn rate_arm(way: &str) -> String {
    format!("rate-{way}")
}

pub(super) fn memory_arm(way: &str) -> String {
    format!("memory-{way}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::coldstart::way::FORK_COLD;

    #[test]
    fn what_was_not_measured_is_no_figure() {
        let nothing = Measured { cells: &[], held: &[], rates: &[] };
        assert!(nothing.ratios().is_empty() && nothing.comparisons().is_empty());
        let targets = nothing.targets();
        assert!(
            targets.len() == 15
                && targets.iter().all(|target| target.met.is_none() && target.value.is_none())
        );
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
