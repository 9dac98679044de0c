//! Experiments with workloads from `functions/*/*/bench.json`: their suites, arms and procedures.

mod back_ends;
mod baseline;
mod belongings;
mod checked;
mod cold_warm;
mod expect;
mod manifest;
mod paced;
mod place;
mod promise;
mod recorder;
mod replay;
mod samples;
mod settings;
mod shown;
mod site;
mod strategy;
mod suites;
mod sweep;
mod watch;

use std::{collections::BTreeSet, path::PathBuf};

use anyhow::ensure;
use flint_lab::Report;

pub(super) use self::{
    baseline::Baseline, belongings::Belongings, manifest::functions as here, suites::SUITES,
};
use self::{
    manifest::{Manifest, Variant},
    promise::Promise,
    strategy::Strategy,
};
use super::{
    asked::{check_arms, check_list, wrong},
    run::{Effort, Run},
};

/// An experiment.
pub(super) struct Suite {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// The suites of workloads, each as a whole.
    suites: &'static [&'static str],
    arms: &'static [Strategy],
    procedure: Procedure,
    promised: &'static [Promise],
}

#[derive(Clone, Copy)]
enum Procedure {
    /// Single calls, with and without an instance.
    ColdWarm,
    /// Increasing numbers of concurrent callers.
    Sweep,
    /// A call every second.
    Paced,
    /// Azure's traces.
    Replay,
}

/// The experiment of this name.
pub(super) fn of(name: &str) -> Option<&'static Suite> {
    SUITES.iter().find(|suite| suite.name == name)
}

/// Where the workloads are.
pub(super) fn functions_of(effort: &Effort) -> anyhow::Result<PathBuf> {
    match effort.set.get("functions") {
        Some(folder) => Ok(folder.into()),
        None => here(),
    }
}

impl Suite {
    pub(super) async fn run(&self, run: &mut Run) -> anyhow::Result<Report> {
        if !self.arms.is_empty() {
            self.chosen(run)?;
        }
        let workloads = self.workloads(run).map_err(wrong)?;
        match self.procedure {
            Procedure::ColdWarm => cold_warm::run(self, run, &workloads).await,
            Procedure::Sweep => sweep::run(self, run, &workloads).await,
            Procedure::Paced => paced::run(self, run, &workloads).await,
            Procedure::Replay => replay::run(self, run, &workloads).await,
        }
    }

    /// Its valid options of `--set`.
    pub(super) const fn options(&self) -> &'static [&'static str] {
        match self.procedure {
            Procedure::ColdWarm => &["functions", "workload", "variant", "input"],
            Procedure::Sweep => &["functions", "workload", "variant", "input", "levels", "seconds"],
            Procedure::Paced => &["functions", "workload", "variant", "input", "seconds"],
            Procedure::Replay => &[
                "functions",
                "workload",
                "variant",
                "trace",
                "procedure",
                "minutes",
                "copies",
                "compress",
                "functions-at-most",
                "calls",
            ],
        }
    }

    /// The requested arms.
    fn chosen(&self, run: &Run) -> anyhow::Result<Vec<Strategy>> {
        check_arms(&run.effort.arms, self.arms.iter().map(|arm| arm.name))?;
        let asked = |arm: &&Strategy| {
            run.effort.arms.is_empty() || run.effort.arms.iter().any(|name| name == arm.name)
        };
        Ok(self.arms.iter().filter(asked).copied().collect())
    }

    /// The folders of its workloads, and files shared by a suite; `--set workload=A,B` selects some.
    pub(super) fn folders(&self, effort: &Effort) -> anyhow::Result<Vec<PathBuf>> {
        let asked = effort.set.get("workload");
        let mut found = BTreeSet::new();
        for manifest in manifest::all(&functions_of(effort)?)? {
            let is_asked = asked.is_none_or(|list| list.split(',').any(|name| name == manifest.name));
            if !is_asked || !self.suites.contains(&manifest.suite.as_str()) {
                continue;
            }
            let beside = manifest.folder.parent().map(std::fs::read_dir).into_iter().flatten().flatten();
            let shared = beside.flatten().map(|entry| entry.path());
            found.extend(shared.filter(|path| !path.join("bench.json").is_file()));
            found.insert(manifest.folder);
        }
        Ok(found.into_iter().collect())
    }

    /// The workloads in their languages; `--set workload=A,B` and `--set variant=A,B` select some,
    /// `--set input=A,B` those with such inputs, once for each input.
    fn workloads(&self, run: &Run) -> anyhow::Result<Vec<(Manifest, Variant)>> {
        let folder = functions_of(&run.effort)?;
        let wanted = |key: &str, name: &str| {
            run.effort.set.get(key).is_none_or(|list| list.split(',').any(|wanted| wanted == name))
        };
        let mut manifests = manifest::all(&folder)?;
        manifests.retain(|manifest| self.suites.contains(&manifest.suite.as_str()));
        manifests = with_inputs(run, manifests)?;
        let variants = manifests.iter().flat_map(|manifest| &manifest.variants);
        check_list(run, "workload", manifests.iter().map(|manifest| manifest.name.as_str()))?;
        check_list(run, "variant", variants.map(|variant| variant.name.as_str()))?;
        let mut found = Vec::new();
        for manifest in &manifests {
            if !wanted("workload", &manifest.name) {
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

    /// Whether each of its rounds has one cold call.
    #[cfg(test)]
    pub(super) const fn is_of_single_calls(&self) -> bool {
        matches!(self.procedure, Procedure::ColdWarm)
    }

    /// The promises, without measurements.
    pub(super) fn targets_of_nothing(&self) -> Vec<flint_lab::Target> {
        let mut report = Report::default();
        self.judge(&mut report);
        if matches!(self.procedure, Procedure::Replay) {
            report.targets.extend(replay::targets_of_nothing());
        }
        report.targets
    }

    /// Adds the promises to the measurements.
    fn judge(&self, report: &mut Report) {
        let targets: Vec<_> = self.promised.iter().map(|promise| promise.judge(report)).collect();
        report.targets.extend(targets);
    }
}

/// Each workload with each of its inputs named by `--set input=A,B`; without that, all of them unchanged.
fn with_inputs(run: &Run, manifests: Vec<Manifest>) -> anyhow::Result<Vec<Manifest>> {
    let Some(list) = run.effort.set.get("input") else { return Ok(manifests) };
    let asked = |manifest: &Manifest| {
        run.effort.set.get("workload").is_none_or(|list| list.split(',').any(|name| name == manifest.name))
    };
    let named: Vec<_> = manifests.iter().filter(|manifest| asked(manifest)).collect();
    check_list(run, "input", named.iter().flat_map(|manifest| manifest.inputs()))?;
    let chosen = |name: &str| {
        let has = named.iter().filter(|manifest| manifest.inputs().any(|input| input == name));
        has.map(|manifest| manifest.with_input(name)).collect::<Vec<_>>()
    };
    Ok(list.split(',').flat_map(chosen).collect())
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

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
            for promise in suite.promised {
                for (function, row) in [promise.slow, promise.fast] {
                    let known = |workload: &Manifest| {
                        suite.suites.contains(&workload.suite.as_str())
                            && workload.variants.iter().any(|variant| workload.title(variant) == function)
                    };
                    assert!(workloads.iter().any(known), "{}: {function}", suite.name);
                    let arm = row.trim_end_matches(" cold").trim_end_matches(" warm");
                    let is_arm = suite.arms.iter().any(|strategy| strategy.name == arm);
                    assert!(
                        is_arm || paced::ARMS.iter().any(|known| known.0 == arm),
                        "{}: {row}",
                        suite.name
                    );
                }
            }
            // Those of a replay apply to every replayed workload.
            assert!(
                suite.promised.is_empty() == matches!(suite.procedure, Procedure::Replay),
                "{}",
                suite.name
            );
        }
        for workload in &workloads {
            for size in [Size::Test, Size::Small, Size::Large] {
                let size = size.as_str();
                // An empty response is wrong for each of them.
                assert!(workload.verify(size, b"", Duration::MAX).is_err(), "{} {size}", workload.name);
                for variant in &workload.variants {
                    workload.entry(variant, size).unwrap();
                    for (at, function) in variant.functions.iter().enumerate() {
                        let is_entry = function.name == variant.entry;
                        let is_warmed_up = workload.params(size, &manifest::Values::new()).is_err()
                            || workload.events(function, is_entry, size, &manifest::Values::new()).is_ok();
                        // Called by others, so it comes before them.
                        let is_last = at + 1 == variant.functions.len();
                        assert!(
                            is_warmed_up && (!is_entry || is_last),
                            "{}: {}",
                            workload.name,
                            function.name
                        );
                    }
                }
                // ServerlessBench's test case 9 has 40 callers.
                let callers = workload.crowd(size).map(|crowd| crowd.callers);
                let wanted =
                    (workload.name == "concurrent-startup").then_some(if size == "test" { 4 } else { 40 });
                assert_eq!(callers, wanted, "{} {size}", workload.name);
            }
        }
    }

    #[test]
    fn every_arm_has_a_name_of_its_own() {
        for suite in SUITES {
            let mut names: Vec<_> = suite.arms.iter().map(|arm| arm.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), suite.arms.len(), "{}", suite.name);
        }
        assert!(of("nothing").is_none());
    }

    #[test]
    fn inputs_beside_the_sizes_are_chosen_by_their_names() {
        let asked = |workload: Option<&str>, input: &str| {
            let mut set = std::collections::BTreeMap::from([("input".to_owned(), input.to_owned())]);
            let functions = concat!(env!("CARGO_MANIFEST_DIR"), "/../../functions");
            set.insert("functions".to_owned(), functions.to_owned());
            set.extend(workload.map(|name| ("workload".to_owned(), name.to_owned())));
            let run = Run::begin(
                "serverlessbench",
                crate::bench::Effort {
                    quick: true,
                    size: Size::Small,
                    arms: Vec::new(),
                    repeat: None,
                    seed: 1,
                    set,
                    out: None,
                    despite_noise: false,
                },
            );
            let found = of("serverlessbench").unwrap().workloads(&run.unwrap());
            let params = |(manifest, variant): &(Manifest, Variant)| {
                let params = manifest.params("small", &manifest::Values::new()).unwrap();
                (manifest.title(variant), params.to_string())
            };
            found.map(|all| all.iter().map(params).collect::<Vec<_>>()).map_err(|error| error.to_string())
        };
        let titles: Vec<_> = asked(None, "reminder-add,5k").unwrap();
        assert_eq!(titles[0].0, "alexa:reminder-add node");
        assert!(titles[0].1.contains("red umbrella"), "{titles:?}");
        assert_eq!(titles[1..], [("communication:5k node".to_owned(), r#"{"bytes":5120}"#.to_owned())]);
        let refused = asked(Some("alexa"), "5k").unwrap_err();
        assert!(
            refused.ends_with(
                "there is no input '5k' here; there is reminder-add, reminder-retrieve, smarthome"
            ),
            "{refused}"
        );
    }
}
