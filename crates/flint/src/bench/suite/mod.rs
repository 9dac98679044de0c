//! Experiments whose workloads are read from `functions/*/*/bench.json`: which suites, in which ways, by which procedure.

mod back_ends;
mod cold_warm;
mod expect;
mod manifest;
mod paced;
mod recorder;
mod replay;
mod samples;
mod site;
mod strategy;
mod sweep;

use anyhow::{bail, ensure};
use flint_lab::{Report, Target};

use self::{
    manifest::{Manifest, Variant},
    strategy::{CLASSIC, COMPILED, CONTAINER, FLINT, LOADED, SHARED, Strategy},
};
use super::run::Run;

/// An experiment.
pub(super) struct Suite {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// Which suites of workloads; all of each.
    suites: &'static [&'static str],
    arms: &'static [Strategy],
    procedure: Procedure,
    /// Comparisons that are promised: function, slower arm, faster arm, at least so many times.
    promised: &'static [(&'static str, &'static str, &'static str, f64)],
}

#[derive(Clone, Copy)]
enum Procedure {
    /// Single calls, with and without an instance.
    ColdWarm,
    /// More and more callers at once.
    Sweep,
    /// A call every second.
    Paced,
    /// Azure's trace.
    Replay,
}

/// All of them.
pub(super) const SUITES: &[Suite] = &[
    Suite {
        name: "faasdom",
        what: "FaaSdom's functions, cold and warm: start, loading and execution",
        suites: &["faasdom"],
        arms: &[CLASSIC, CONTAINER, FLINT],
        procedure: Procedure::ColdWarm,
        promised: &[
            ("netlatency node", "container cold", "flint cold", 20.0),
            ("netlatency python", "container cold", "flint cold", 20.0),
        ],
    },
    Suite {
        name: "serverlessbench",
        what: "ServerlessBench's applications: the Alexa skills, the wage analysis, chains, data transfer, images",
        suites: &["serverlessbench"],
        arms: &[CONTAINER, FLINT],
        procedure: Procedure::ColdWarm,
        promised: &[
            ("alexa node", "container cold", "flint cold", 5.0),
            ("wage-analysis node", "container cold", "flint cold", 5.0),
        ],
    },
    Suite {
        name: "sebs",
        what: "thumbnails, compression, dynamic HTML and graphs, as in SeBS",
        suites: &["sebs"],
        arms: &[CLASSIC, CONTAINER, FLINT],
        procedure: Procedure::ColdWarm,
        promised: &[],
    },
    Suite {
        name: "fireworks-factors",
        what: "FIREWORKS' factor analysis: a sandbox, a snapshot after loading, a snapshot after compiling",
        suites: &["faasdom"],
        arms: &[CONTAINER, LOADED, COMPILED],
        procedure: Procedure::ColdWarm,
        promised: &[],
    },
    Suite {
        name: "java-faas",
        what: "the six programs of java-faas-benchmarks, each call in a fresh instance",
        suites: &["java-faas"],
        arms: &[CLASSIC, CONTAINER, FLINT],
        procedure: Procedure::ColdWarm,
        promised: &[],
    },
    Suite {
        name: "photons-concurrency",
        what: "Photons' sweep: more and more callers of one function; latency, throughput, memory",
        suites: &["photons"],
        arms: &[CONTAINER, SHARED, FLINT],
        procedure: Procedure::Sweep,
        promised: &[],
    },
    Suite {
        name: "afterburn",
        what: "OpenFaaS' and AfterBurn's question: what a process for each request costs, beside one that stays",
        suites: &["faasdom"],
        arms: &[CLASSIC, CONTAINER, FLINT],
        procedure: Procedure::Sweep,
        promised: &[],
    },
    Suite {
        name: "openwhisk-casestudy",
        what: "the image resize of the OpenWhisk evaluation, a call a second; arms default, best (memory) and flint",
        suites: &["openwhisk"],
        arms: &[],
        procedure: Procedure::Paced,
        promised: &[],
    },
    Suite {
        name: "azure-replay",
        what: "Azure's trace of 2019 by Photons' procedure: cold starts, p90, memory and throughput over time",
        suites: &["photons"],
        arms: &[CONTAINER, SHARED, FLINT],
        procedure: Procedure::Replay,
        promised: &[],
    },
];

/// The experiment of this name.
pub(super) fn of(name: &str) -> Option<&'static Suite> {
    SUITES.iter().find(|suite| suite.name == name)
}

impl Suite {
    pub(super) async fn run(&self, run: &mut Run) -> anyhow::Result<Report> {
        if !self.arms.is_empty() {
            self.chosen(run)?;
        }
        let workloads = self.workloads(run)?;
        match self.procedure {
            Procedure::ColdWarm => cold_warm::run(self, run, &workloads).await,
            Procedure::Sweep => sweep::run(self, run, &workloads).await,
            Procedure::Paced => paced::run(self, run, &workloads).await,
            Procedure::Replay => replay::run(self, run, &workloads).await,
        }
    }

    /// The arms that were asked for.
    fn chosen(&self, run: &Run) -> anyhow::Result<Vec<Strategy>> {
        let names: Vec<&str> = self.arms.iter().map(|arm| arm.name).collect();
        if let Some(unknown) = run.effort.arms.iter().find(|asked| !names.contains(&asked.as_str())) {
            bail!("there is no arm '{unknown}': choose from {}", names.join(", "));
        }
        let asked = |arm: &&Strategy| {
            run.effort.arms.is_empty() || run.effort.arms.iter().any(|name| name == arm.name)
        };
        Ok(self.arms.iter().filter(asked).copied().collect())
    }

    /// The workloads in their languages; `--set workload=A,B` and `--set variant=A,B` leave only those.
    fn workloads(&self, run: &Run) -> anyhow::Result<Vec<(Manifest, Variant)>> {
        let folder = match run.effort.set.get("functions") {
            Some(folder) => folder.into(),
            None => manifest::functions()?,
        };
        let wanted = |key: &str, name: &str| {
            run.effort.set.get(key).is_none_or(|list| list.split(',').any(|wanted| wanted == name))
        };
        let mut found = Vec::new();
        for manifest in manifest::all(&folder)? {
            if !self.suites.contains(&manifest.suite.as_str()) || !wanted("workload", &manifest.name) {
                continue;
            }
            for variant in manifest.variants.iter().filter(|variant| wanted("variant", &variant.name)) {
                found.push((manifest.clone(), variant.clone()));
            }
        }
        ensure!(
            !found.is_empty(),
            "there is no workload of {} in {}{}",
            self.suites.join(", "),
            folder.display(),
            if run.effort.set.is_empty() { "" } else { " that --set leaves" }
        );
        Ok(found)
    }

    /// Puts the promises beside what was measured.
    fn judge(&self, report: &mut Report) {
        for (function, slow, fast, least) in self.promised {
            let measured = report
                .comparisons
                .iter()
                .find(|one| one.function == *function && one.a == *slow && one.b == *fast)
                .map(|one| one.times);
            let name = format!("{function}: {slow} takes as many times as long as {fast}");
            report.targets.push(Target::at_least(&name, measured, *least));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::bench::Size;

    #[test]
    fn every_experiment_has_workloads_and_every_workload_is_read() {
        let functions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../functions");
        let workloads = manifest::all(&functions).unwrap();
        for suite in SUITES {
            for name in suite.suites {
                assert!(workloads.iter().any(|workload| workload.suite == *name), "{}: {name}", suite.name);
            }
            for (function, slow, fast, _) in suite.promised {
                let known = |workload: &Manifest| {
                    workload.variants.iter().any(|variant| workload.title(variant) == *function)
                };
                assert!(workloads.iter().any(known), "{}: {function}", suite.name);
                for arm in [slow, fast] {
                    let name = arm.trim_end_matches(" cold").trim_end_matches(" warm");
                    assert!(suite.arms.iter().any(|strategy| strategy.name == name), "{}: {arm}", suite.name);
                }
            }
        }
        for workload in &workloads {
            for size in [Size::Test, Size::Small, Size::Large] {
                let size = size.as_str();
                // An answer of nothing is wrong for each of them.
                assert!(workload.verify(size, b"").is_err(), "{} {size}", workload.name);
                for variant in &workload.variants {
                    workload.entry(variant, size).unwrap();
                }
            }
        }
    }

    #[test]
    fn a_promise_is_judged_by_what_was_compared() {
        let suite = of("faasdom").unwrap();
        let test = flint_lab::MannWhitney::test(&[2.0], &[1.0]).unwrap();
        let compared = |times| flint_lab::Comparison {
            a: "container cold".into(),
            b: "flint cold".into(),
            function: "netlatency node".into(),
            times,
            test,
        };
        let mut report = Report { comparisons: vec![compared(21.0)], ..Report::default() };
        suite.judge(&mut report);
        assert_eq!(report.targets.iter().map(|target| target.met).collect::<Vec<_>>(), [Some(true), None]);
        assert!(of("nothing").is_none());
    }
}
