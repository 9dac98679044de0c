//! Java: a Maven project that compiles to WASI with TeaVM.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::{Job, Output, find, missing, run::Runner};
use crate::failure::Failure;

pub(super) fn build(job: Job<'_>, runner: &Runner<'_>) -> Result<Output, Failure> {
    // mvnw is the Maven wrapper, by which a project brings its own Maven.
    let maven = match find::program("mvnw", &[job.path.to_owned()]) {
        Some(wrapper) if wrapper.starts_with(job.path) => Some(wrapper.canonicalize().unwrap_or(wrapper)),
        _ => find::program("mvn", &[]),
    };
    let Some(maven) = maven else {
        return Err(missing(
            job,
            "there is no Maven",
            "apt-get install maven (Debian, Ubuntu), or https://maven.apache.org/install.html",
        ));
    };
    if find::program("javac", &[]).is_none() && std::env::var_os("JAVA_HOME").is_none() {
        return Err(missing(job, "there is no JDK", "apt-get install default-jdk-headless (Debian, Ubuntu)"));
    }
    let mut command = Command::new(maven);
    command
        .args(["-B", "-ntp", "-Dstyle.color=never", "-Dmaven.test.skip=true", "package"])
        .current_dir(job.path);
    runner.run(&mut command)?;
    Ok(Output { file: module(job)?, with: "Maven and TeaVM".to_owned() })
}

/// The module in `target/`; `--main NAME` selects NAME.wasm among several.
fn module(job: Job<'_>) -> Result<PathBuf, Failure> {
    let mut modules = Vec::new();
    collect(&job.path.join("target"), 4, &mut modules);
    modules.sort();
    let stem = |file: &PathBuf| file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(name) = job.main {
        modules.retain(|file| stem(file) == name);
    }
    match modules.as_mut_slice() {
        [module] => Ok(std::mem::take(module)),
        [] => {
            let named = job.main.map(|name| format!(" called {name}.wasm")).unwrap_or_default();
            Err(Failure::usage(format!("{} builds no module{named} below target/", job.path.display()))
                .hint("teavm-maven-plugin (0.10.2) needs <targetType>WEBASSEMBLY_WASI</targetType>; `flint init --lang java` writes an example"))
        }
        several => {
            let names: Vec<_> = several.iter().map(stem).collect();
            Err(Failure::usage(format!(
                "{} builds several modules: {}",
                job.path.display(),
                names.join(", ")
            ))
            .hint("name one with --main"))
        }
    }
}

fn collect(directory: &Path, depth: usize, modules: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() && depth > 0 {
            collect(&path, depth - 1, modules);
        } else if path.extension().is_some_and(|extension| extension == "wasm") {
            modules.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::*;

    #[test]
    fn the_module_is_found_or_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let found = |main| module(Job { path: dir.path(), main, within: Duration::from_secs(60) });
        assert!(found(None).unwrap_err().hint.unwrap().contains("WEBASSEMBLY_WASI"));
        fs::create_dir_all(dir.path().join("target/wasm")).unwrap();
        let one = dir.path().join("target/wasm/one.wasm");
        fs::write(&one, "").unwrap();
        assert_eq!(found(None).unwrap(), one);
        fs::write(dir.path().join("target/two.wasm"), "").unwrap();
        assert!(found(None).unwrap_err().message.ends_with("several modules: two, one"));
        assert_eq!(found(Some("one")).unwrap(), one);
        assert!(found(Some("three")).is_err());
    }
}
