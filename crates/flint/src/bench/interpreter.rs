//! The interpreters used by all arms of an experiment, with Flint and without: those that Flint uses by
//! default. With different ones, arms would compare interpreters.

use std::{path::PathBuf, sync::Arc};

use anyhow::{anyhow, bail};
use flint_model::Kind;
use flint_runtimes::discover::{Engine, Runtime, Runtimes};

/// The options of the Python shim.
pub(super) const PYTHON_OPTIONS: [&str; 3] = ["-X", "utf8", "-s"];

/// An interpreter of this host.
#[derive(Debug)]
pub(super) struct Interpreter {
    /// Its kind for deploys: `python:3.13`.
    pub(super) kind: String,
    /// The version in `kind`.
    pub(super) line: String,
    /// Where it is.
    pub(super) program: PathBuf,
}

impl Interpreter {
    fn find(family: &str) -> anyhow::Result<Self> {
        let kind: Kind = format!("{family}:default").parse()?;
        let found = Runtimes::on_path().resolve(&kind);
        match found.map_err(|why| anyhow!("there is no {family} for this experiment: {why}"))? {
            Engine::Language(runtime) => Ok(Self::of(&runtime)),
            Engine::Native => bail!("{family} has no interpreter"),
        }
    }

    fn of(runtime: &Arc<Runtime>) -> Self {
        let (kind, line, program) = (runtime.kind(), runtime.line.clone(), runtime.program.clone());
        Self { kind, line, program }
    }

    /// Its command line, before the program to run.
    pub(super) fn command(&self, options: &[&str]) -> Vec<String> {
        let options = options.iter().map(|&option| option.to_owned());
        [self.program.display().to_string()].into_iter().chain(options).collect()
    }
}

/// Flint's Python for functions.
pub(super) fn python() -> anyhow::Result<Interpreter> {
    Interpreter::find("python")
}

/// Flint's Node.js for functions.
pub(super) fn node() -> anyhow::Result<Interpreter> {
    Interpreter::find("nodejs")
}
