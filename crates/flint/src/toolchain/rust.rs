//! Rust: cargo, with the target of the project or the environment, otherwise `wasm32-wasip1`.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde::Deserialize;

use super::{Job, Output, find, missing, run::Runner};
use crate::failure::Failure;

/// For core modules, both of the core ABI and programs. `wasm32-wasip2` produces components.
const TARGET: &str = "wasm32-wasip1";

pub(super) fn build(job: Job<'_>, runner: &Runner<'_>) -> Result<Output, Failure> {
    let Some(cargo) = find::program("cargo", &[]) else {
        return Err(missing(
            job,
            "there is no cargo",
            "install Rust: https://www.rust-lang.org/tools/install (or `apt-get install rustup && rustup default stable`)",
        ));
    };
    let target = target(job.path);
    if !target.starts_with("wasm32-") {
        return Err(Failure::usage(format!(
            "{} builds for {target}, which is not WebAssembly",
            job.path.display()
        ))
        .hint("set build.target in .cargo/config.toml to wasm32-wasip1 or wasm32-wasip2, or take it out"));
    }
    check_target(job, runner, &target)?;
    let mut command = Command::new(cargo);
    command
        .args(["build", "--release", "--message-format=json-render-diagnostics", "--target", &target])
        .current_dir(job.path)
        .env("CARGO_TERM_COLOR", "never");
    if let Some(bin) = job.main {
        command.args(["--bin", bin]);
    }
    let messages = runner.run(&mut command)?;
    let file = module(job, &messages)?;
    Ok(Output { file, with: format!("cargo for {target}") })
}

/// The target that cargo would build for.
fn target(directory: &Path) -> String {
    let from_environment = env::var("CARGO_BUILD_TARGET").ok();
    let from_project = || {
        ["config.toml", "config"].iter().find_map(|name| {
            let text = fs::read_to_string(directory.join(".cargo").join(name)).ok()?;
            let config: toml::Table = toml::from_str(&text).ok()?;
            Some(config.get("build")?.get("target")?.as_str()?.to_owned())
        })
    };
    from_environment.or_else(from_project).unwrap_or_else(|| TARGET.to_owned())
}

/// Checks that the project's toolchain has the target's standard library.
fn check_target(job: Job<'_>, runner: &Runner<'_>, target: &str) -> Result<(), Failure> {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", target]).current_dir(job.path);
    let there = runner.run(&mut rustc).is_ok_and(|directory| Path::new(directory.trim()).is_dir());
    if there {
        return Ok(());
    }
    let install = match find::program("rustup", &[]) {
        Some(_) => format!("(cd {} && rustup target add {target})", job.path.display()),
        None => "install Rust by rustup, which has this target: https://www.rust-lang.org/tools/install"
            .to_owned(),
    };
    Err(missing(job, &format!("the Rust target {target} is not installed"), &install))
}

/// Cargo's message about a built artefact.
#[derive(Deserialize)]
struct Artifact {
    manifest_path: PathBuf,
    target: Target,
    filenames: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// The project's own module among cargo's messages.
fn module(job: Job<'_>, messages: &str) -> Result<PathBuf, Failure> {
    let manifest = job.path.join("Cargo.toml");
    let manifest = manifest.canonicalize().unwrap_or(manifest);
    let mut modules = BTreeMap::new();
    for line in messages.lines().filter(|line| line.starts_with(r#"{"reason":"compiler-artifact""#)) {
        let Ok(artifact) = serde_json::from_str::<Artifact>(line) else { continue };
        let is_wasm = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "wasm");
        if let Some(file) = artifact.filenames.into_iter().find(is_wasm) {
            modules.insert((artifact.manifest_path != manifest, artifact.target.name), file);
        }
    }
    // A workspace's root package comes before its members.
    let own = modules.keys().next().map(|(other, _)| *other);
    modules.retain(|(other, _), _| Some(*other) == own);
    let names: Vec<_> = modules.keys().map(|(_, name)| name.clone()).collect();
    match modules.into_values().collect::<Vec<_>>().as_mut_slice() {
        [file] => Ok(std::mem::take(file)),
        [] => Err(Failure::usage(format!("{} builds no Wasm module", job.path.display()))
            .hint("it needs a program (src/main.rs), or a library with crate-type = [\"cdylib\"]")),
        _ => Err(Failure::usage(format!(
            "{} builds several modules: {}",
            job.path.display(),
            names.join(", ")
        ))
        .hint("deploy one package's directory, or name a program with --main")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn job(path: &Path) -> Job<'_> {
        Job { path, main: None, within: Duration::from_secs(60) }
    }

    fn artifact(manifest: &Path, name: &str, file: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"x","manifest_path":{manifest:?},"target":{{"kind":["bin"],"name":"{name}"}},"filenames":["{file}"],"fresh":true}}"#
        )
    }

    #[test]
    fn the_projects_own_module_is_found_among_cargos_messages() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("Cargo.toml");
        fs::write(&own, "").unwrap();
        let own = own.canonicalize().unwrap();
        let member = Path::new("/elsewhere/Cargo.toml");
        let said = [
            artifact(member, "dep", "/t/libdep.rlib"),
            artifact(member, "member", "/t/member.wasm"),
            artifact(&own, "mine", "/t/mine.wasm"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        assert_eq!(module(job(dir.path()), &said.join("\n")).unwrap(), Path::new("/t/mine.wasm"));
        assert_eq!(module(job(dir.path()), &said[..2].join("\n")).unwrap(), Path::new("/t/member.wasm"));
        let none = module(job(dir.path()), &said[0]).unwrap_err();
        assert!(none.hint.unwrap().contains("cdylib"));
        let two = [artifact(&own, "a", "/t/a.wasm"), artifact(&own, "b", "/t/b.wasm")].join("\n");
        assert!(module(job(dir.path()), &two).unwrap_err().message.ends_with("several modules: a, b"));
    }

    #[test]
    fn the_projects_configuration_names_the_target() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(".cargo")).unwrap();
        fs::write(dir.path().join(".cargo/config.toml"), "[build]\ntarget = 'wasm32-wasip2'\n").unwrap();
        if env::var_os("CARGO_BUILD_TARGET").is_none() {
            assert_eq!(target(dir.path()), "wasm32-wasip2");
            assert_eq!(target(Path::new("/nowhere")), TARGET);
        }
    }
}
