//! A run of an experiment: its thoroughness, its stored results, and the probes of the host.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, bail};
use flint_lab::{Host, Identity, Noise, NoiseWatch, Report, RunFolder, start_after_rest};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::{
    asked::{check_options, check_size},
    interpreter::{self, Interpreter},
    sources,
};

/// How large the inputs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Size {
    /// Just enough to show that everything works.
    Test,
    /// The default of the original workload.
    Small,
    /// Large enough for execution time to dominate.
    Large,
}

impl Size {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Small => "small",
            Self::Large => "large",
        }
    }
}

/// How thorough an experiment is to be.
#[derive(Clone, Debug)]
pub(crate) struct Effort {
    /// A few seconds instead of minutes; too short to quote.
    pub(crate) quick: bool,
    /// How large its inputs are.
    pub(crate) size: Size,
    /// Only the arms of these names; all when empty.
    pub(crate) arms: Vec<String>,
    /// Rounds that are counted; the experiment's own number when nobody says.
    pub(crate) repeat: Option<usize>,
    /// Of everything that is drawn.
    pub(crate) seed: u64,
    /// The experiment's own options.
    pub(crate) set: BTreeMap<String, String>,
    /// Where results are kept.
    pub(crate) out: Option<PathBuf>,
    /// Compare although the host is noisy.
    pub(crate) despite_noise: bool,
}

impl Effort {
    fn settings(&self) -> serde_json::Value {
        json!({
            "quick": self.quick, "size": self.size.as_str(), "arms": self.arms, "repeat": self.repeat,
            "seed": self.seed, "set": self.set,
        })
    }

    /// Rounds that are counted: as many as were asked for, else the experiment's own number.
    pub(super) fn rounds(&self, usual: usize) -> usize {
        self.repeat.unwrap_or(usual)
    }
}

/// The context of an experiment.
pub(super) struct Run {
    pub(super) effort: Effort,
    pub(super) host: Host,
    pub(super) folder: Arc<RunFolder>,
    pub(super) noise: NoiseWatch,
    pub(super) bar: ProgressBar,
    /// The version of the workloads when the run began.
    workloads: Option<String>,
    /// Versions of the baselines and back ends used by all starts of the run.
    used: Mutex<BTreeSet<(String, String)>>,
}

/// The file of these versions, one per line.
const USED: &str = "versions.jsonl";

impl Run {
    pub(super) fn begin(experiment: &str, effort: Effort) -> anyhow::Result<Self> {
        check_options(experiment, &effort.set)?;
        check_size(experiment, effort.size)?;
        let host = Host::describe();
        let workloads = sources::fingerprint(experiment, &effort);
        let folder = match &effort.out {
            None => RunFolder::none(),
            Some(folder) => {
                let identity = Identity {
                    experiment: experiment.to_owned(),
                    commit: commit(),
                    program: program()?,
                    host: host.lasting(),
                    settings: effort.settings(),
                    workloads: workloads.clone(),
                };
                RunFolder::open(folder, &identity)?
            }
        };
        let folder = Arc::new(folder);
        let used = Mutex::new(folder.lines(USED).into_iter().collect());
        let mut noise = NoiseWatch::of(Arc::clone(&folder));
        if effort.quick {
            noise = noise.without_waits();
        }
        Ok(Self { effort, host, folder, noise, bar: progress_bar(), workloads, used })
    }

    /// An empty report of this run.
    pub(super) fn report(&self, experiment: &str) -> Report {
        Report {
            experiment: experiment.to_owned(),
            host: self.host.clone(),
            commit: commit(),
            workloads: self.workloads.clone(),
            settings: self.effort.settings(),
            ..Report::default()
        }
    }

    /// Stores the versions of what this run uses, so that the report has them even for measurements of an
    /// earlier start.
    pub(super) fn uses(&self, versions: Vec<(String, String)>) -> anyhow::Result<()> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        for version in versions {
            if !used.contains(&version) {
                self.folder.append(USED, &version)?;
                used.insert(version);
            }
        }
        Ok(())
    }

    /// Shows what is being done.
    pub(super) fn show(&self, what: &str, done: usize, steps: usize) {
        show(&self.bar, what, done, steps);
    }

    /// Probes the host before `part` is measured, unless an earlier start of this run has measured all of its
    /// `keys`.
    pub(super) async fn look(
        &mut self,
        part: &str,
        keys: impl IntoIterator<Item = String>,
    ) -> anyhow::Result<()> {
        if keys.into_iter().any(|key| !self.folder.has(&key)) {
            self.noise.look(part).await?;
        }
        Ok(())
    }

    /// The stored measurement of `key` from an earlier start of this run, or a new one, which is stored.
    pub(super) async fn kept<T, F>(&self, key: &str, measure: F) -> anyhow::Result<T>
    where
        T: serde::Serialize + serde::de::DeserializeOwned,
        F: AsyncFnOnce() -> anyhow::Result<T>,
    {
        if let Some(kept) = self.folder.get(key) {
            return Ok(kept);
        }
        let measured = measure().await?;
        self.folder.put(key, &measured)?;
        Ok(measured)
    }

    /// The same for a round of an arm, whose failure is kept too: the arm stays without figures.
    pub(super) async fn kept_of<T, F>(&self, arm: &str, key: &str, measure: F) -> anyhow::Result<T>
    where
        T: serde::Serialize + serde::de::DeserializeOwned,
        F: AsyncFnOnce() -> anyhow::Result<T>,
    {
        if let Some(why) = self.folder.failed(arm) {
            bail!(why);
        }
        let measured = self.kept(key, measure).await;
        if let Err(error) = &measured {
            self.folder.fail(arm, &format!("{error:#}"))?;
        }
        measured
    }

    /// Judges the report by the host's noise, adds when and with what it was made, and writes it to the
    /// folder.
    pub(super) async fn end(mut self, mut report: Report) -> anyhow::Result<Report> {
        self.noise.end().await?;
        self.show("starting processes after a rest", 0, 1);
        let noise = Noise { start_after_rest: start_after_rest().await, ..self.noise.noise() };
        self.bar.finish_and_clear();
        if report.settings.is_null() {
            report.settings = self.effort.settings();
        }
        report.versions.extend(versions());
        for (name, version) in self.used.into_inner().unwrap_or_else(PoisonError::into_inner) {
            // If parts of the run used different versions, all are named.
            let said = report.versions.entry(name).or_default();
            *said = if said.is_empty() { version } else { format!("{said}; {version}") };
        }
        report.ended = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if self.effort.quick {
            report.notes.push(
                "A quick run: it shows that everything works; its figures are not to be quoted.".into(),
            );
        }
        if self.workloads != sources::fingerprint(&report.experiment, &self.effort) {
            report.notes.push(
                "The workloads' sources were changed while the run went on: not all of it measured the same."
                    .into(),
            );
        }
        report.judge(noise, self.effort.despite_noise);
        write(&self.folder, &report)?;
        Ok(report)
    }
}

/// Writes the report in every form.
pub(super) fn write(folder: &RunFolder, report: &Report) -> anyhow::Result<()> {
    let json = serde_json::to_vec_pretty(report).context("writing the report")?;
    folder.write("report.json", &json)?;
    folder.write("report.md", report.markdown().as_bytes())?;
    folder.write("report.html", report.html().as_bytes())?;
    Ok(())
}

/// Versions of the language runtimes that are installed.
fn versions() -> BTreeMap<String, String> {
    let said = |program: &Path, argument: &str| {
        let output = std::process::Command::new(program).arg(argument).output().ok()?;
        let text = [output.stdout, output.stderr].concat();
        let first = String::from_utf8_lossy(&text).lines().next()?.trim().to_owned();
        (!first.is_empty()).then_some(first)
    };
    let functions = |found: anyhow::Result<Interpreter>| found.ok().map(|found| found.program);
    [
        ("node", functions(interpreter::node()), "--version"),
        ("python3", functions(interpreter::python()), "--version"),
        ("java", Some("java".into()), "-version"),
        ("runsc", Some("runsc".into()), "--version"),
    ]
    .into_iter()
    .filter_map(|(name, program, argument)| Some((name.to_owned(), said(&program?, argument)?)))
    .chain([("flint".to_owned(), env!("CARGO_PKG_VERSION").to_owned())])
    .collect()
}

/// A progress bar that names the current arm.
fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} (about {eta} left)")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(0).with_style(style)
}

pub(super) fn show(bar: &ProgressBar, what: &str, done: usize, steps: usize) {
    bar.set_length(steps as u64);
    bar.set_position(done as u64);
    bar.set_message(what.to_owned());
}

/// The commit of this binary, as recorded by the build.
pub(crate) fn commit() -> String {
    option_env!("FLINT_COMMIT").unwrap_or("unknown").to_owned()
}

/// The identity of this binary, which measures and is measured.
fn program() -> anyhow::Result<String> {
    let mut hash = blake3::Hasher::new();
    let own = std::fs::File::open("/proc/self/exe").context("reading this program")?;
    hash.update_reader(own).context("reading this program")?;
    Ok(hash.finalize().to_hex().chars().take(12).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept_in(folder: PathBuf) -> Effort {
        Effort {
            quick: true,
            size: Size::Small,
            arms: Vec::new(),
            repeat: None,
            seed: 1,
            set: BTreeMap::new(),
            out: Some(folder),
            despite_noise: false,
        }
    }

    #[tokio::test]
    async fn a_resumed_run_is_judged_by_the_looks_of_all_its_parts() {
        let scratch = tempfile::tempdir().unwrap();
        let effort = kept_in(scratch.path().join("run"));
        // The second part measures only what the first has not.
        for (part, measured) in [vec!["a", "b"], vec!["a", "b", "c"]].into_iter().enumerate() {
            let mut run = Run::begin("x", effort.clone()).unwrap();
            for name in measured {
                run.look(name, [name.to_owned()]).await.unwrap();
                assert_eq!(run.kept(name, async || Ok(name.len() + part)).await.unwrap() == 1, name != "c");
            }
            assert_eq!(run.noise.noise().looks, 2 + part);
            if part == 1 {
                let report = run.report("x");
                // One after the last measurement too.
                let noise = run.end(report).await.unwrap().noise.unwrap();
                assert!(noise.looks == 4 && noise.start_after_rest.is_some(), "{noise:?}");
            }
        }
        let mut again = Run::begin("x", effort).unwrap();
        again.look("a", ["a", "c"].map(str::to_owned)).await.unwrap();
        assert_eq!(again.noise.noise().looks, 4);
    }

    #[tokio::test]
    async fn an_arm_that_has_failed_is_not_measured_apart_from_the_others() {
        let scratch = tempfile::tempdir().unwrap();
        let effort = kept_in(scratch.path().join("run"));
        let run = Run::begin("x", effort.clone()).unwrap();
        assert_eq!(run.kept_of("a", "a round 1", async || Ok(1)).await.unwrap(), 1);
        let failed = run.kept_of::<u32, _>("a", "a round 2", async || bail!("a wrong answer")).await;
        assert_eq!(failed.unwrap_err().to_string(), "a wrong answer");
        drop(run);
        let run = Run::begin("x", effort).unwrap();
        for round in ["a round 1", "a round 2"] {
            let again = run.kept_of("a", round, async || Ok(2)).await.unwrap_err().to_string();
            assert!(again.starts_with("a wrong answer (not tried again"), "{again}");
        }
        assert_eq!(run.kept_of("b", "b round 1", async || Ok(2)).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn releases_of_what_was_used_are_in_the_report_of_a_resumed_run_too() {
        let scratch = tempfile::tempdir().unwrap();
        let effort = kept_in(scratch.path().join("run"));
        let said = |name: &str, version: &str| vec![(name.to_owned(), version.to_owned())];
        let run = Run::begin("x", effort.clone()).unwrap();
        run.uses(said("openwhisk", "runc version 1")).unwrap();
        run.uses(said("s3", "v1")).unwrap();
        drop(run);
        let run = Run::begin("x", effort).unwrap();
        run.uses(said("s3", "v1")).unwrap();
        run.uses(said("s3", "v2")).unwrap();
        let report = run.report("x");
        let versions = run.end(report).await.unwrap().versions;
        assert_eq!((&*versions["openwhisk"], &*versions["s3"]), ("runc version 1", "v1; v2"));
    }

    #[tokio::test]
    async fn a_run_does_not_go_on_with_another_version_of_a_workload() {
        let scratch = tempfile::tempdir().unwrap();
        let functions = scratch.path().join("functions");
        let folder = functions.join("faasdom/fact");
        std::fs::create_dir_all(&folder).unwrap();
        let manifest = r#"{ "name": "fact", "suite": "faasdom", "variants": [], "sizes": {} }"#;
        std::fs::write(folder.join("bench.json"), manifest).unwrap();
        std::fs::write(folder.join("index.js"), "1").unwrap();
        let effort = || Effort {
            quick: true,
            size: Size::Test,
            arms: Vec::new(),
            repeat: None,
            seed: 1,
            set: [("functions".to_owned(), functions.display().to_string())].into(),
            out: Some(scratch.path().join("run")),
            despite_noise: false,
        };
        let run = Run::begin("faasdom", effort()).unwrap();
        let version = run.report("faasdom").workloads.unwrap();
        drop(run);
        assert!(Run::begin("faasdom", effort()).is_ok());
        std::fs::write(folder.join("index.js"), "2").unwrap();
        let refused = Run::begin("faasdom", effort()).err().unwrap().to_string();
        assert!(refused.contains("a run of another version of the workloads"), "{refused}");
        std::fs::write(folder.join("index.js"), "1").unwrap();
        let run = Run::begin("faasdom", effort()).unwrap();
        assert_eq!(run.workloads.as_ref(), Some(&version));
        std::fs::write(folder.join("index.js"), "3").unwrap();
        let report = run.report("faasdom");
        let report = run.end(report).await.unwrap();
        assert!(report.notes.iter().any(|note| note.contains("were changed while the run went on")));
    }
}
