//! Go: its own compiler, for wasip1.

use std::{path::Path, process::Command};

use super::{Job, Output, find, missing, run::Runner};
use crate::failure::Failure;

/// The first minor version that builds for wasip1.
const MINOR: u32 = 21;
const INSTALL: &str = "install Go 1.21 or later: https://go.dev/doc/install (`apt-get install golang-go` where that is new enough)";

pub(super) fn build(job: Job<'_>, runner: &Runner<'_>, scratch: &Path) -> Result<Output, Failure> {
    let Some(go) = find::program("go", &["/usr/local/go/bin".into()]) else {
        return Err(missing(job, "there is no Go", INSTALL));
    };
    let directory = find::directory_of(job.path);
    let version = runner.run(Command::new(&go).args(["env", "GOVERSION"]).current_dir(directory))?;
    let version = version.trim();
    if minor(version).is_some_and(|minor| minor < MINOR) {
        return Err(missing(job, &format!("{version} cannot build for WebAssembly with WASI"), INSTALL));
    }
    let file = scratch.join("function.wasm");
    let mut command = Command::new(go);
    // Without debugger tables, but with the names that a backtrace shows.
    command.args(["build", "-trimpath", "-ldflags=-w", "-o"]).arg(&file);
    match (job.main, job.path.is_dir()) {
        (Some(package), _) => command.arg(package),
        (None, true) => command.arg("."),
        (None, false) => command.arg(job.path.file_name().unwrap_or_default()),
    };
    command.current_dir(directory).env("GOOS", "wasip1").env("GOARCH", "wasm");
    runner.run(&mut command)?;
    Ok(Output { file, with: version.to_owned() })
}

/// 22 of `go1.22.3`.
fn minor(version: &str) -> Option<u32> {
    let rest = version.strip_prefix("go1.")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!((minor("go1.21.0"), minor("go1.22rc1"), minor("go1.9")), (Some(21), Some(22), Some(9)));
        assert_eq!((minor("devel +abc"), minor("go1.")), (None, None));
    }
}
