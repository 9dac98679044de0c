//! Records which commit is built, for reports and `flint --version`, and leaves the symbol table out of the release binary.

use std::process::Command;

fn main() {
    // A fifth of the file, which users only carry about. A profile's `strip` does the same, and builds every dependency anew.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo:rustc-link-arg-bins=-Wl,--strip-all");
    }
    println!("cargo:rerun-if-changed=../../.git/HEAD");
    println!("cargo:rerun-if-changed=../../.git/logs/HEAD");
    let commit = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    if let Some(commit) = commit.ok().filter(|output| output.status.success()) {
        println!("cargo:rustc-env=FLINT_COMMIT={}", String::from_utf8_lossy(&commit.stdout).trim());
    }
}
