//! Finds PHP's command-line interpreter.

use std::path::{Path, PathBuf};

use super::{
    Family, Runtime,
    search::{self, Search},
};

const OLDEST: u32 = 8;

pub(super) fn find(search: &Search) -> Vec<Runtime> {
    let named = |name: &str| {
        let version = name.strip_prefix("php");
        version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
    };
    search.ask_all(Family::Php, search.programs(named), look)
}

/// Prints the version, the executable, the directory of extensions, and the extensions that the host's
/// settings load from there, in their order.
const QUESTION: &str = "$folder = ini_get('extension_dir');
$shared = array_filter(array_map('strtolower', get_loaded_extensions()), fn($name) => is_file(\"$folder/$name.so\"));
echo PHP_VERSION, \"\\n\", PHP_SAPI, \"\\n\", realpath(PHP_BINARY), \"\\n\", realpath($folder), \"\\n\", implode(',', $shared);";

fn look(search: &Search, program: &Path) -> Option<Runtime> {
    let answer = search.ask(Family::Php, program, &["-r", QUESTION])?;
    let mut lines = answer.lines();
    let version = search::version(lines.next()?);
    let line = version.get(..2).filter(|line| line[0] >= OLDEST)?;
    if lines.next()? != "cli" {
        return None;
    }
    let (program, extensions) =
        (PathBuf::from(lines.next()?), PathBuf::from(lines.next().unwrap_or_default()));
    let mut mounts = search::stays(&program)?;
    // Sandboxes do not see the settings in /etc, so extensions are given as arguments.
    let mut settings = vec!["display_errors=stderr".to_owned(), "memory_limit=-1".to_owned()];
    if extensions.is_dir() {
        mounts.extend(search::stays(&extensions)?);
        settings.push(format!("extension_dir={}", extensions.display()));
        let names = lines.next().unwrap_or_default().split(',').filter(|name| !name.is_empty());
        settings.extend(names.map(|name| format!("extension={name}")));
    }
    let mut arguments = vec!["-n".to_owned()];
    arguments.extend(settings.into_iter().flat_map(|setting| ["-d".to_owned(), setting]));
    Some(Runtime {
        family: Family::Php,
        line: format!("{}.{}", line[0], line[1]),
        version,
        program,
        mounts,
        compiler: None,
        arguments,
        libraries: None,
    })
}
