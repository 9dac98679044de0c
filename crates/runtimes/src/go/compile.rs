//! Compiles a function's sources to `code/exec`.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path};

use flint_executor::PrepareError;
use flint_model::{Contract, Function};
use flint_sandbox::Launcher;

use super::{BUILD, GoCaches, tool};
use crate::{
    discover::Runtime,
    process::{
        command::readonly,
        tool::{Bounds, make},
    },
    shims::Shims,
};

const SOURCE: &str = "/source";
const CACHE: &str = "/cache";
/// A copy of the cache made of symbolic links, to which the build can add; it goes with the sandbox.
const OWN_CACHE: &str = "/tmp/cache";
const BUILT: &str = "/tmp/exec";
const SCRIPT: &str = "cp -rs /cache /tmp/cache && \"$0\" \"$@\" 3>&- && cat /tmp/exec >&3";
const LAUNCHER: &str = "flint_launcher.go";
/// Larger sources are not searched for a `main` function.
const SOURCE_MAX: u64 = 4 << 20;

/// The parameters of a build.
pub(crate) struct Build<'a> {
    pub(crate) function: &'a Function,
    pub(crate) runtime: &'a Runtime,
    pub(crate) shims: &'a Shims,
    pub(crate) caches: &'a GoCaches,
    pub(crate) launcher: &'a Launcher,
    /// The artefact's directory, which contains `code`.
    pub(crate) artefact: &'a Path,
    pub(crate) bounds: Bounds,
}

/// Adds `exec` to the code; returns a description of the step.
pub(crate) async fn compile(build: Build<'_>) -> Result<String, PrepareError> {
    let Build { function, runtime, shims, artefact, .. } = build;
    let (code, program) = (artefact.join("code"), artefact.join("program"));
    let Some(package) = ["", "src"].into_iter().find(|folder| has_sources(&code.join(folder))) else {
        return Err(PrepareError::Code("the archive has no .go file at its top or in src/".into()));
    };
    let folder = code.join(package);
    let own_main = has_main(&folder).map_err(failed("reading the sources"))?;
    if !own_main && function.contract == Contract::ActionLoop {
        let name = entry_name(function.main.as_deref().unwrap_or("main"))?;
        write_launcher(shims, &folder, &name).map_err(failed("adding the launcher to the sources"))?;
    }
    if !folder.join("go.mod").exists() && !code.join("go.mod").exists() {
        write_module(&folder, runtime).map_err(failed("writing go.mod"))?;
    }
    let cache = build.caches.get(runtime, shims, build.launcher).await.map_err(|detail| {
        PrepareError::Failed { operation: "compiling Go's standard library, once".into(), detail }
    })?;
    let arguments: Vec<&str> = BUILD.into_iter().chain([BUILT, "."]).collect();
    let cwd = format!("{SOURCE}/{package}");
    let mut spec =
        tool("go-build", runtime, &arguments, cwd.trim_end_matches('/'), OWN_CACHE, build.bounds.memory);
    let tool = std::mem::take(&mut spec.argv);
    spec.argv = ["/bin/sh", "-c", SCRIPT].map(str::to_owned).into();
    spec.argv.extend(tool);
    spec.mounts.extend([readonly(code.clone(), SOURCE), readonly(cache.to_path_buf(), CACHE)]);
    make(build.launcher, spec, &program, build.bounds).await.map_err(|error| {
        error.of_build("compiling the Go source", |said| {
            format!(
                "the Go source does not compile:\n{}{}",
                said.replace(&format!("{SOURCE}/"), ""),
                hint(&said)
            )
        })
    })?;
    take(&program, &code.join("exec")).map_err(failed("taking the program"))?;
    Ok(format!("compiled with Go {}", runtime.version_text()))
}

fn failed(operation: &'static str) -> impl Fn(io::Error) -> PrepareError {
    move |error| PrepareError::Failed { operation: operation.into(), detail: error.to_string() }
}

/// A hint on the most common failures.
fn hint(said: &str) -> &'static str {
    if said.contains("undefined: ") && said.contains(LAUNCHER) {
        "\nThe function that calls go to is exported: 'main' stands for 'Main'. Name another one as the action's main."
    } else if said.contains("found packages ") && said.contains(LAUNCHER) {
        "\nA function's package is main: its files begin with 'package main'."
    } else if said.contains("cannot find module providing") || said.contains("module lookup disabled") {
        "\nThere is no network here: run 'go mod vendor' and put vendor/ into the archive."
    } else {
        ""
    }
}

/// The function's name as Go exports it: `main` becomes `Main`.
fn entry_name(main: &str) -> Result<String, PrepareError> {
    let mut letters = main.chars();
    let first = letters.next().filter(|letter| letter.is_ascii_alphabetic());
    match first {
        Some(first) if letters.clone().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') => {
            Ok(first.to_ascii_uppercase().to_string() + letters.as_str())
        }
        _ => Err(PrepareError::Code(format!("'{main}' cannot be the name of a Go function"))),
    }
}

/// Writes the launcher beside the sources.
pub(super) fn write_launcher(shims: &Shims, folder: &Path, entry: &str) -> io::Result<()> {
    let text = fs::read_to_string(shims.of("go").join("launcher.go"))?;
    write_new(&folder.join(LAUNCHER), text.replace("FLINT_MAIN", entry).as_bytes())
}

/// Writes a `go.mod` for sources without one.
pub(super) fn write_module(folder: &Path, runtime: &Runtime) -> io::Result<()> {
    write_new(&folder.join("go.mod"), format!("module function\n\ngo {}\n", runtime.line).as_bytes())
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    use io::Write;
    let mut file = fs::File::create_new(path)?;
    file.write_all(content)?;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

fn sources(folder: &Path) -> impl Iterator<Item = fs::DirEntry> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.ends_with(".go")
            && !name.ends_with("_test.go")
            && entry.file_type().is_ok_and(|kind| kind.is_file())
    })
}

fn has_sources(folder: &Path) -> bool {
    sources(folder).next().is_some()
}

/// Whether the package has its own `main` function.
fn has_main(folder: &Path) -> io::Result<bool> {
    for source in sources(folder) {
        if source.metadata()?.len() > SOURCE_MAX {
            continue;
        }
        let text = fs::read(source.path())?;
        if String::from_utf8_lossy(&text).lines().any(|line| line.starts_with("func main()")) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Moves the program into place, which must not exist yet.
fn take(from: &Path, to: &Path) -> io::Result<()> {
    fs::set_permissions(from, fs::Permissions::from_mode(0o755))?;
    fs::hard_link(from, to)?;
    fs::remove_file(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_point_is_exported_and_a_name() {
        assert_eq!(entry_name("main").unwrap(), "Main");
        assert_eq!(entry_name("sayHello_2").unwrap(), "SayHello_2");
        for bad in ["", "1x", "a b", "os.Exit", "x\n", "ä"] {
            assert!(entry_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn another_package_than_main_is_named() {
        let said = "found packages function (main.go) and main (flint_launcher.go) in /source";
        assert!(hint(said).contains("package main"));
    }

    #[test]
    fn a_program_of_its_own_is_recognised() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.go"), "package main\n\n// func main()\n\tfunc main() {}\n").unwrap();
        assert!(has_sources(folder.path()) && !has_main(folder.path()).unwrap());
        fs::write(folder.path().join("b.go"), "package main\nfunc main() {\n}\n").unwrap();
        assert!(has_main(folder.path()).unwrap());
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("c.go")).unwrap();
        assert_eq!(sources(folder.path()).count(), 2);
    }
}
