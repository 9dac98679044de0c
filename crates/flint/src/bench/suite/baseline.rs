//! Baselines: other programs to compare with, started and stopped by the scripts in scripts/baselines.

use std::{
    collections::{BTreeMap, HashSet},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use flint_lab::{HttpRequest, ProcessTree};
use serde_json::Value;

use super::{
    belongings::Belongings,
    manifest::{Manifest, Values, Variant, functions},
    site::Options,
    strategy::Scripts,
};
use crate::{
    bench::{
        interpreter,
        janitor::{Note, scratch},
        server::in_group,
    },
    output::tell,
};

/// A running baseline with one function, stopped on drop.
pub(in crate::bench) struct Baseline {
    /// The folder of its scripts.
    name: String,
    pub(in crate::bench) address: SocketAddr,
    /// One request per copy.
    pub(super) requests: Vec<HttpRequest>,
    pub(in crate::bench) process: ProcessTree,
    /// Its version, if known.
    pub(in crate::bench) version: Option<String>,
    /// Its own processes, which are not the function's.
    apart: HashSet<u32>,
    stop: PathBuf,
    data: PathBuf,
    _note: Note,
    _scratch: tempfile::TempDir,
}

impl Baseline {
    /// Starts it with the variant's function. The error says why it cannot run that, or what is missing.
    pub(super) fn start(
        manifest: &Manifest,
        variant: &Variant,
        scripts: Scripts,
        options: &Options,
    ) -> anyhow::Result<Self> {
        let [function] = variant.functions.as_slice() else {
            bail!("this baseline runs single functions, and this workload has {}", variant.functions.len());
        };
        ensure!(variant.sequences.is_empty(), "this baseline runs no sequences");
        ensure!(manifest.back_ends.is_empty(), "this baseline reaches no back ends");
        ensure!(function.main.is_none(), "this baseline calls main, and this function is called otherwise");
        let script = match function.kind.as_str() {
            "nodejs" => scripts.node,
            "python" => scripts.python,
            _ => None,
        };
        let script = script.with_context(|| format!("this baseline runs no {} functions", function.kind))?;
        let code = manifest.folder.join(&function.code);
        let mut baseline = Self::of_file(script, scripts.is_plain, &code, options.keep_alive, None)?;
        ensure!(options.copies <= 1 || !scripts.is_plain, "this baseline runs one function");
        let params = manifest.params(options.size, &Values::new())?;
        baseline.requests = (0..options.copies).map(|copy| baseline.request(copy, &params)).collect();
        Ok(baseline)
    }

    /// The same for any file, within a cgroup, by its folder.
    pub(in crate::bench) fn of_file(
        script: &str,
        is_plain: bool,
        code: &Path,
        keep_alive: Duration,
        group: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let folder = functions()?.join("../scripts/baselines").join(script);
        let scratch = scratch()?;
        let data = scratch.path().join("d");
        let stop = folder.join("stop.sh");
        let note = Note::to_run(&stop, &data)?;
        let said = started(&folder.join("start.sh"), &data, code, keep_alive, group)?;
        let value = |key: &str| said.get(key).with_context(|| format!("{script} does not say its {key}"));
        let address = value("url")?.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let pid: u32 = value("pid")?.parse().context("reading its process id")?;
        Ok(Self {
            name: script.to_owned(),
            address: address.parse().with_context(|| format!("{script} listens at {address}"))?,
            requests: Vec::new(),
            process: ProcessTree::new(pid),
            version: said.get("version").filter(|version| !version.is_empty()).cloned(),
            apart: if is_plain { HashSet::new() } else { HashSet::from([pid]) },
            stop,
            data,
            _note: note,
            _scratch: scratch,
        })
    }

    /// A call of a copy.
    pub(in crate::bench) fn request(&self, copy: usize, params: &Value) -> HttpRequest {
        let path = if copy == 0 { "/".to_owned() } else { format!("/copy-{copy}") };
        let header = ["content-type: application/json".to_owned()];
        HttpRequest::new("POST", &path, self.address, &header, params.to_string().as_bytes(), 200)
    }

    /// Its version by name, if known.
    pub(in crate::bench) fn versions(&self) -> Vec<(String, String)> {
        self.version.iter().map(|version| (self.name.clone(), version.clone())).collect()
    }

    pub(in crate::bench) fn pid(&self) -> u32 {
        self.process.pids()[0]
    }

    /// Everything that belongs to the function.
    pub(in crate::bench) fn belongings(&self) -> Belongings {
        Belongings { tree: self.process, apart: self.apart.clone(), inside: None }
    }
}

/// Runs a start script; returns its output.
fn started(
    script: &Path,
    data: &Path,
    code: &Path,
    keep_alive: Duration,
    group: Option<&Path>,
) -> anyhow::Result<BTreeMap<String, String>> {
    let output = in_group(group, script)
        .args([data, code])
        .env("KEEP_ALIVE_MS", keep_alive.as_millis().to_string())
        .envs(interpreters())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("running {}", script.display()))?;
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", why.trim().lines().last().unwrap_or("it does not say why"));
    let said = String::from_utf8_lossy(&output.stdout);
    let pair = |line: &str| line.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    Ok(said.lines().filter_map(pair).collect())
}

/// The variables that pass the interpreters to the scripts; missing ones are omitted.
fn interpreters() -> impl Iterator<Item = (&'static str, PathBuf)> {
    [("BASELINE_PYTHON", interpreter::python()), ("BASELINE_NODE", interpreter::node())]
        .into_iter()
        .filter_map(|(variable, found)| Some((variable, found.ok()?.program)))
}

impl Drop for Baseline {
    fn drop(&mut self) {
        let (stop, data) = (self.stop.display(), self.data.display());
        match Command::new(&self.stop).arg(&self.data).stdin(Stdio::null()).stdout(Stdio::null()).status() {
            Ok(status) if status.success() => {}
            _ => tell!("flint bench: {stop} {data} failed: end it by hand"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn baselines_are_told_what_functions_run_on() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("start.sh");
        fs::write(&script, "#!/bin/sh\necho node=$BASELINE_NODE\necho python=$BASELINE_PYTHON\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let said = started(&script, folder.path(), folder.path(), Duration::ZERO, None).unwrap();
        let program = |found: anyhow::Result<interpreter::Interpreter>| {
            found.map(|found| found.program.display().to_string()).unwrap_or_default()
        };
        assert_eq!(said["node"], program(interpreter::node()));
        assert_eq!(said["python"], program(interpreter::python()));
    }
}
