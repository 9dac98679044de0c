//! C: clang with wasi-libc, from the distribution or from wasi-sdk.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{Job, Output, cannot_write, find, missing, run::Runner};
use crate::failure::Failure;

/// The header for the core ABI; a project has its own copy, a single file may include this one.
const HEADER: &str = include_str!("../../../../functions/wasm/c-hello/flint.h");
const HEADER_NAME: &str = "flint.h";
const INSTALL: &str = "apt-get install clang lld wasi-libc libclang-rt-dev-wasm32 (Debian, Ubuntu), or unpack wasi-sdk and set WASI_SDK_PATH to it";

pub(super) fn build(job: Job<'_>, runner: &Runner<'_>, scratch: &Path) -> Result<Output, Failure> {
    let sdk: Vec<PathBuf> =
        env::var_os("WASI_SDK_PATH").into_iter().map(|sdk| PathBuf::from(sdk).join("bin")).collect();
    let Some(clang) = find::program("clang", &sdk) else {
        return Err(missing(job, "there is no clang", INSTALL));
    };
    check_parts(job, runner, &clang)?;
    let sources = sources(job.path)?;
    let header = scratch.join(HEADER_NAME);
    fs::write(&header, HEADER).map_err(|error| cannot_write(&header, &error))?;
    let file = scratch.join("function.wasm");
    let mut command = Command::new(clang);
    // The stack is placed first in memory, so that an overflow traps instead of overwriting data.
    command.args(["--target=wasm32-wasi", "-O2", "-Wall", "-Wl,--stack-first", "-Wl,-z,stack-size=1048576"]);
    if speaks_the_core_abi(&sources) {
        // Reactor: a library that is called, not a program that runs once.
        command.arg("-mexec-model=reactor");
    }
    command.arg("-I").arg(scratch).arg("-o").arg(&file);
    command.args(sources.iter().map(|source| source.file_name().unwrap_or_default()));
    command.arg("-lm").current_dir(find::directory_of(job.path));
    runner.run(&mut command)?;
    Ok(Output { file, with: "clang for wasm32-wasi".to_owned() })
}

/// Names missing parts of the toolchain, more clearly than the compiler would.
fn check_parts(job: Job<'_>, runner: &Runner<'_>, clang: &Path) -> Result<(), Failure> {
    let parts = [
        ("-print-prog-name=wasm-ld", "the linker wasm-ld (package lld)"),
        ("-print-file-name=crt1-command.o", "the C library for WASI (package wasi-libc)"),
        ("-print-libgcc-file-name", "clang's runtime for WebAssembly (package libclang-rt-dev-wasm32)"),
    ];
    for (question, part) in parts {
        let mut ask = Command::new(clang);
        ask.args(["--target=wasm32-wasi", "-rtlib=compiler-rt", question]);
        // For a file it does not find, the compiler prints the bare name.
        let found = runner.run(&mut ask)?;
        let found = Path::new(found.trim());
        if !found.is_absolute() || !found.exists() {
            return Err(missing(job, &format!("clang is here, {part} is not"), INSTALL));
        }
    }
    Ok(())
}

/// The file, or the C files at the top of the directory.
fn sources(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    let mut sources: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "c"))
        .collect();
    sources.sort();
    Ok(sources)
}

fn speaks_the_core_abi(sources: &[PathBuf]) -> bool {
    sources.iter().any(|source| {
        fs::read(source).is_ok_and(|text| {
            String::from_utf8_lossy(&text)
                .lines()
                .any(|line| line.trim_start().starts_with("#include") && line.contains(HEADER_NAME))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_includes_the_helper_is_a_library() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let program = file("b.c", "/* not flint.h */\n#include <stdio.h>\n");
        assert!(!speaks_the_core_abi(std::slice::from_ref(&program)));
        let library = file("a.c", "  #include \"flint.h\"\n");
        file("notes.txt", "");
        assert_eq!(sources(dir.path()).unwrap(), [library.clone(), program]);
        assert!(speaks_the_core_abi(&[library]));
    }
}
