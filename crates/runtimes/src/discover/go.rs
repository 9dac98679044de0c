//! Finds Go toolchains, which compile functions and are not needed to run them.

use std::path::{Path, PathBuf};

use super::{
    Family, Runtime,
    search::{self, Search},
};

const OLDEST: [u32; 2] = [1, 18];

pub(super) fn find(search: &Search) -> Vec<Runtime> {
    search.ask_all(Family::Go, search.programs(|name| name == "go"), look)
}

fn look(search: &Search, program: &Path) -> Option<Runtime> {
    let answer = search.ask(Family::Go, program, &["env", "GOVERSION", "GOROOT"])?;
    let (version, root) = answer.split_once('\n')?;
    let version = search::version(version.trim().strip_prefix("go")?);
    let line = version.get(..2).filter(|line| **line >= OLDEST[..])?;
    let root = PathBuf::from(root.trim());
    Some(Runtime {
        family: Family::Go,
        line: format!("{}.{}", line[0], line[1]),
        mounts: search::mount(&root, &format!("/opt/go{}.{}", line[0], line[1])).into_iter().collect(),
        program: root.join("bin/go"),
        version,
        compiler: None,
        arguments: Vec::new(),
        libraries: None,
    })
}
