//! Finds CRuby.

use std::path::{Path, PathBuf};

use super::{
    Family, Runtime,
    search::{self, Search},
};

const OLDEST: [u32; 2] = [2, 7];

pub(super) fn find(search: &Search) -> Vec<Runtime> {
    let named = |name: &str| {
        let version = name.strip_prefix("ruby");
        version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
    };
    search.ask_all(Family::Ruby, search.programs(named), look)
}

const QUESTION: &str = "require 'rbconfig'; require 'json'; puts RUBY_VERSION, RUBY_ENGINE, File.realpath(RbConfig.ruby), RbConfig::CONFIG['rubylibdir']";

fn look(search: &Search, program: &Path) -> Option<Runtime> {
    let answer = search.ask(Family::Ruby, program, &["-e", QUESTION])?;
    let [version, "ruby", program, library] = answer.lines().collect::<Vec<_>>()[..] else { return None };
    let version = search::version(version);
    let line = version.get(..2).filter(|line| **line >= OLDEST[..])?;
    let program = PathBuf::from(program);
    // `lib/ruby` holds the standard library, its compiled extensions and the default gems.
    let library = Path::new(library).ancestors().find(|folder| folder.ends_with("lib/ruby"))?;
    let mut mounts = search::stays(&program)?;
    mounts.extend(search::stays(library)?);
    Some(Runtime {
        family: Family::Ruby,
        line: format!("{}.{}", line[0], line[1]),
        version,
        program,
        mounts,
        compiler: None,
        arguments: Vec::new(),
        libraries: None,
    })
}
