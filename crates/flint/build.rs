//! Records which commit is built, for reports and `flint --version`.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=../../.git/HEAD");
    println!("cargo:rerun-if-changed=../../.git/logs/HEAD");
    let commit = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    if let Some(commit) = commit.ok().filter(|output| output.status.success()) {
        println!("cargo:rustc-env=FLINT_COMMIT={}", String::from_utf8_lossy(&commit.stdout).trim());
    }
}
