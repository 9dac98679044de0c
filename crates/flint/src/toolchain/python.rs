//! Python: componentize-py, which puts CPython and the imported handler into a component.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    Job, Output, cannot_write, find,
    handler::{self, WIT, WORLD},
    missing,
    run::Runner,
};
use crate::failure::Failure;

const GLUE: &str = include_str!("glue/command.py");
const GLUE_NAME: &str = "flint_command";
/// The module that the glue imports.
const FUNCTION: &str = "flint_function.py";
/// The tested version.
const INSTALL: &str = "python3 -m venv .venv && .venv/bin/pip install componentize-py==0.25.1 (beside the handler, or anywhere on PATH)";
/// Virtual environments are not copied: their packages are passed separately.
const ENVIRONMENTS: &[&str] = &[".venv", "virtualenv"];

pub(super) fn build(job: Job<'_>, runner: &Runner<'_>, scratch: &Path) -> Result<Output, Failure> {
    let directory = find::directory_of(job.path);
    let beside = find::upwards(directory, &[".venv/bin", "virtualenv/bin"]);
    let Some(tool) = find::program("componentize-py", &beside) else {
        return Err(missing(job, "there is no componentize-py, which puts Python into WebAssembly", INSTALL));
    };
    let root = scratch.join("project");
    match job.path.is_dir() {
        true => handler::copy(directory, &root, ENVIRONMENTS)?,
        false => fs::create_dir_all(&root).map_err(|error| cannot_write(&root, &error))?,
    }
    let entry = entry(job.path)?;
    let code = fs::read(&entry)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", entry.display())))?;
    let function = root.join(FUNCTION);
    fs::write(&function, code).map_err(|error| cannot_write(&function, &error))?;
    let glue = GLUE.replace("@MAIN@", &handler::names(job)?);
    handler::write(&root, &format!("{GLUE_NAME}.py"), &glue)?;
    let wit = handler::write(scratch, "command.wit", WIT)?;
    let file = scratch.join("function.wasm");
    let mut command = Command::new(tool);
    command.arg("-q").arg("-d").arg(wit).args(["-w", WORLD, "componentize", GLUE_NAME, "-p"]).arg(&root);
    for packages in site_packages(directory) {
        command.arg("-p").arg(packages);
    }
    command.arg("-o").arg(&file).current_dir(&root);
    // Otherwise the tool's errors include its own stack trace. An active virtual environment is not the
    // function's.
    command.env("RUST_BACKTRACE", "0").env_remove("VIRTUAL_ENV");
    runner.run(&mut command)?;
    Ok(Output { file, with: "componentize-py".to_owned() })
}

/// The handler's file.
fn entry(path: &Path) -> Result<PathBuf, Failure> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    ["__main__.py", "main.py", "handler.py"]
        .iter()
        .map(|name| path.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| {
            Failure::usage(format!("{} has no __main__.py, main.py or handler.py", path.display()))
        })
}

/// The packages deployed with the function: those of `virtualenv`, as without Wasm. `.venv` contains the
/// tools.
fn site_packages(directory: &Path) -> Vec<PathBuf> {
    let Ok(versions) = fs::read_dir(directory.join("virtualenv/lib")) else { return Vec::new() };
    let packages = versions.flatten().map(|version| version.path().join("site-packages"));
    packages
        .filter(|packages| packages.is_dir())
        .map(|packages| packages.canonicalize().unwrap_or(packages))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_and_the_packages_are_found() {
        let dir = tempfile::tempdir().unwrap();
        assert!(entry(dir.path()).is_err() && site_packages(dir.path()).is_empty());
        fs::write(dir.path().join("handler.py"), "").unwrap();
        assert_eq!(entry(dir.path()).unwrap(), dir.path().join("handler.py"));
        fs::write(dir.path().join("__main__.py"), "").unwrap();
        assert_eq!(entry(dir.path()).unwrap(), dir.path().join("__main__.py"));
        let packages = dir.path().join("virtualenv/lib/python3.14/site-packages");
        fs::create_dir_all(&packages).unwrap();
        assert_eq!(site_packages(dir.path()), [packages.canonicalize().unwrap()]);
    }
}
