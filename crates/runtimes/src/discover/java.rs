//! Finds Java development kits.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

use super::{
    Family, Runtime,
    search::{self, Search},
};

const OLDEST: u32 = 17;

pub(super) fn find(search: &Search) -> Vec<Runtime> {
    let mut homes: Vec<PathBuf> = env::var_os("JAVA_HOME").map(PathBuf::from).into_iter().collect();
    homes.extend(fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten().map(|entry| entry.path()));
    homes.extend(search.homes());
    let programs = search.programs(|name| name == "java");
    homes.extend(
        programs.iter().filter_map(|java| Some(fs::canonicalize(java).ok()?.parent()?.parent()?.to_owned())),
    );
    let homes: BTreeSet<PathBuf> = homes.iter().filter_map(|home| fs::canonicalize(home).ok()).collect();
    let found = homes.iter().filter_map(|home| look(home));
    found.filter(|runtime| search.trusts(Family::Java, &runtime.program)).collect()
}

/// Reads the version in the JDK's file `release`. An installation without a compiler (a JRE) is ignored,
/// because the shim has to be compiled.
fn look(home: &Path) -> Option<Runtime> {
    let program = home.join("bin/java");
    let compiler = home.join("bin/javac");
    if !program.exists() || !compiler.exists() {
        return None;
    }
    let release = fs::read_to_string(home.join("release")).ok()?;
    let version = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION="))?;
    let version = search::version(version.trim_matches('"'));
    let major = *version.first().filter(|major| **major >= OLDEST)?;
    Some(Runtime {
        family: Family::Java,
        line: major.to_string(),
        version,
        mounts: search::mount(home, &format!("/opt/java{major}")).into_iter().collect(),
        program,
        compiler: Some(compiler),
        arguments: Vec::new(),
        libraries: None,
    })
}
