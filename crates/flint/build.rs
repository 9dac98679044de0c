//! Records which commit is built, for reports and `flint --version`, and makes the release binary smaller.

use std::{env, process::Command};

fn main() {
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        // The symbol table: a fifth of the file, which users only carry about. A profile's `strip` does the same, and builds every dependency anew.
        println!("cargo:rustc-link-arg-bins=-Wl,--strip-all");
        if packs_relocations() {
            // 24 bytes for each of a hundred thousand addresses otherwise, all of which are read at the start.
            println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        }
    }
    println!("cargo:rerun-if-changed=../../.git/HEAD");
    println!("cargo:rerun-if-changed=../../.git/logs/HEAD");
    let commit = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    if let Some(commit) = commit.ok().filter(|output| output.status.success()) {
        println!("cargo:rustc-env=FLINT_COMMIT={}", String::from_utf8_lossy(&commit.stdout).trim());
    }
}

/// Whether the C library that is built for understands packed relocations: glibc from 2.36 on, which is this machine's when it builds for itself.
fn packs_relocations() -> bool {
    let builds_for_itself =
        env::var("HOST").is_ok_and(|host| env::var("TARGET").is_ok_and(|target| target == host));
    let glibc = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok();
    let version = glibc.and_then(|output| {
        let said = String::from_utf8(output.stdout).ok()?;
        let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
        Some((major.parse::<u32>().ok()?, minor.split('.').next()?.parse::<u32>().ok()?))
    });
    builds_for_itself && version.is_some_and(|version| version >= (2, 36))
}
