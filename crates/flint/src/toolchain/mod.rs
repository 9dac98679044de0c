//! Builds sources into a Wasm module or component, with the toolchain found on this machine.
//!
//! A build runs on the user's machine with the user's rights, like `make`; the server only ever sees the
//! result.

mod c;
mod find;
mod go;
mod handler;
mod java;
mod javascript;
mod language;
mod python;
mod run;
mod rust;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

pub(crate) use language::{Language, of_directory, of_file};

use crate::{
    failure::Failure,
    output::human_size,
    scratch::{Purpose, Scratch},
};
use run::Runner;

const BUILD: Purpose = Purpose { prefix: "flint-build-", clear: |_| true };
/// Default time limit of a build.
pub(crate) const BUILD_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum size of a module; a server's own limit is lower.
const MAX_BYTES: u64 = 512 << 20;

/// A build job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job<'a> {
    /// A project's directory, or its only file.
    pub(crate) path: &'a Path,
    /// The entry point, interpreted by the language.
    pub(crate) main: Option<&'a str>,
    /// Time limit of all steps together.
    pub(crate) within: Duration,
}

/// The result of a build.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) wasm: Vec<u8>,
    /// The tool, the size, the time.
    pub(crate) note: String,
}

/// Builds `job`; `told` hears the tools' progress. Blocks.
pub(crate) fn build(language: Language, job: Job<'_>, told: &dyn Fn(&str)) -> Result<Built, Failure> {
    let scratch = Scratch::new(BUILD)
        .map_err(|error| Failure::local(format!("cannot make a temporary directory: {error}")))?;
    let began = Instant::now();
    let runner = Runner::new(job.path, job.within, told);
    let Output { file, with } = match language {
        Language::Rust => rust::build(job, &runner),
        Language::Go => go::build(job, &runner, scratch.path()),
        Language::C => c::build(job, &runner, scratch.path()),
        Language::Java => java::build(job, &runner),
        Language::JavaScript => javascript::build(job, &runner, scratch.path()),
        Language::Python => python::build(job, &runner, scratch.path()),
    }?;
    let size = fs::metadata(&file).map_err(|error| unreadable(&file, &error))?.len();
    if size > MAX_BYTES {
        let (size, most) = (human_size(size), human_size(MAX_BYTES));
        return Err(Failure::usage(format!(
            "the build made {size}, more than the {most} that a module may have"
        )));
    }
    let wasm = fs::read(&file).map_err(|error| unreadable(&file, &error))?;
    let took = began.elapsed().as_secs_f64();
    Ok(Built {
        wasm,
        note: format!("built from {language} with {with}: {} in {took:.1} s", human_size(size)),
    })
}

/// The module that a language's build produced, and the tool that made it.
struct Output {
    file: PathBuf,
    with: String,
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::local(format!("cannot read {}, which the build should have made: {error}", path.display()))
}

/// The error for a missing tool.
fn missing(job: Job<'_>, what: &str, install: &str) -> Failure {
    Failure::new(
        crate::failure::Exit::Local,
        "toolchain_missing",
        format!("cannot build {}: {what}", job.path.display()),
    )
    .hint(install)
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::local(format!("cannot write {}: {error}", path.display()))
}
