//! Finds the language runtimes of this host and resolves kinds to them.

mod go;
mod java;
pub(crate) mod node;
mod php;
mod python;
mod question;
mod ruby;
mod search;
mod trust;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use flint_executor::RuntimeKind;
use flint_model::Kind;
use flint_sandbox::Mount;

use self::search::Search;
pub use self::search::{Because, NotUsed};

/// A language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Node.js.
    Node,
    /// CPython.
    Python,
    /// A JDK.
    Java,
    /// The Go toolchain.
    Go,
    /// PHP on the command line.
    Php,
    /// CRuby.
    Ruby,
}

impl Family {
    /// Every family.
    pub const ALL: [Self; 6] = [Self::Node, Self::Python, Self::Java, Self::Go, Self::Php, Self::Ruby];

    /// Whether Flint has a shim for it that speaks the link protocol. The others use contract `actionloop`.
    pub const fn has_shim(self) -> bool {
        matches!(self, Self::Node | Self::Python | Self::Java)
    }

    /// Number of the runtime's own threads in a snapshot, besides the main one. `fork` does not copy them.
    pub fn own_threads(self) -> u32 {
        match self {
            Self::Node => node::FLAGS.threads,
            _ => 0,
        }
    }

    /// Whether its shim can use extra time to improve a snapshot beyond loading the function.
    pub const fn practises(self) -> bool {
        matches!(self, Self::Node)
    }

    /// Its name in kinds.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "nodejs",
            Self::Python => "python",
            Self::Java => "java",
            Self::Go => "go",
            Self::Php => "php",
            Self::Ruby => "ruby",
        }
    }

    /// What to install, for a message.
    const fn lacking(self) -> &'static str {
        match self {
            Self::Node => {
                "Node.js 18 or newer was not found on PATH or in runtimes.search: install it with 'apt-get install nodejs'"
            }
            Self::Python => {
                "Python 3.9 or newer was not found on PATH or in runtimes.search: install it with 'apt-get install python3'"
            }
            Self::Java => {
                "a JDK 17 or newer was not found in JAVA_HOME, /usr/lib/jvm, PATH or runtimes.search: install it with 'apt-get install openjdk-17-jdk-headless'"
            }
            Self::Go => {
                "Go 1.18 or newer was not found on PATH or in runtimes.search: install it with 'apt-get install golang-go', or from https://go.dev/doc/install where the distribution's is older (a program that is compiled already runs with the kind native)"
            }
            Self::Php => {
                "PHP 8.0 or newer was not found on PATH or in runtimes.search: install it with 'apt-get install php-cli'"
            }
            Self::Ruby => {
                "Ruby 2.7 or newer was not found on PATH or in runtimes.search: install it with 'apt-get install ruby'"
            }
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An interpreter or virtual machine of this host.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// Its language.
    pub family: Family,
    /// The version after the colon of `kind`: `20`, `3.11`, `17`.
    pub line: String,
    /// The full version; newer ones compare greater.
    pub version: Vec<u32>,
    /// The executable on the host: `node`, `python3`, `java`. [`Self::inside`] gives its path in a sandbox.
    pub program: PathBuf,
    /// Mounts that the runtime needs beyond the minimal root.
    pub mounts: Vec<Mount>,
    /// Java only: the path of `javac` on the host.
    pub compiler: Option<PathBuf>,
    /// Arguments of the interpreter before those of the program that it runs.
    pub arguments: Vec<String>,
    /// The host's directory of its shared libraries, if it would not find them at another path by itself.
    pub libraries: Option<PathBuf>,
}

impl Runtime {
    /// The version as people write it.
    pub fn version_text(&self) -> String {
        self.version.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
    }

    /// The path in a sandbox of a host file that belongs to this runtime.
    pub fn inside(&self, path: &Path) -> PathBuf {
        let moved = self.mounts.iter().find_map(|mount| {
            let rest = path.strip_prefix(&mount.source).ok()?;
            let target = Path::new(&mount.target);
            Some(if rest.as_os_str().is_empty() { target.to_owned() } else { target.join(rest) })
        });
        moved.unwrap_or_else(|| path.to_owned())
    }

    /// The first number of the version.
    pub fn major(&self) -> u32 {
        self.version.first().copied().unwrap_or_default()
    }

    /// Artefacts are only valid for a runtime with the same identity. It includes the path inside sandboxes,
    /// because Java's class archives contain paths.
    pub fn identity(&self) -> String {
        let (host, inside) = (&self.program, self.inside(&self.program));
        let place = if inside == *host { String::new() } else { format!(" at {}", inside.display()) };
        format!("{} {} {}{place}", self.family, self.version_text(), host.display())
    }

    /// The kind that names it.
    pub fn kind(&self) -> String {
        format!("{}:{}", self.family, self.line)
    }
}

/// The program that runs a function.
#[derive(Clone, Debug)]
pub enum Engine {
    /// A language runtime.
    Language(Arc<Runtime>),
    /// The function's own executable.
    Native,
}

/// The language runtimes of this host.
#[derive(Debug)]
pub struct Runtimes {
    /// Sorted by family, each with its newest version first.
    found: Vec<Arc<Runtime>>,
    /// Runtimes that were found and are not used, with the reason.
    not_used: Vec<NotUsed>,
}

/// Kinds of programs that bring their own runtime.
const NATIVE: [&str; 2] = ["native", "blackbox"];

impl Runtimes {
    /// Searches PATH and `folders` (`runtimes.search` of the configuration). Runs each interpreter, so it
    /// blocks for some tenths of a second, on a busy host for longer.
    pub fn discover(folders: &[PathBuf]) -> Self {
        let searching = Search::new(folders);
        let search = &searching;
        let finds: [fn(&Search) -> Vec<Runtime>; 6] =
            [node::find, python::find, java::find, go::find, php::find, ruby::find];
        let found = search::side_by_side(finds.map(|find| move || find(search)));
        let mut found: Vec<Runtime> = found.into_iter().flatten().collect();
        found.sort_by(|a, b| (a.family as u8).cmp(&(b.family as u8)).then_with(|| b.version.cmp(&a.version)));
        // Keeps one interpreter per line: of 3.11, the newest.
        found.dedup_by(|later, first| later.family == first.family && later.line == first.line);
        let not_used = searching.not_used();
        for one in &not_used {
            match one.because {
                Because::Replaceable => {
                    tracing::warn!(family = %one.family, why = one.why, "not used: another user could replace it");
                }
                Because::Hangs => {
                    tracing::warn!(family = %one.family, why = one.why, "not used: no answer in time")
                }
            }
        }
        Self { found: found.into_iter().map(Arc::new).collect(), not_used }
    }

    /// Those on PATH, looked for once in the life of this process.
    pub fn on_path() -> Arc<Self> {
        static FOUND: OnceLock<Arc<Runtimes>> = OnceLock::new();
        Arc::clone(FOUND.get_or_init(|| Arc::new(Self::discover(&[]))))
    }

    /// What was found and is not used, and why.
    pub fn not_used(&self) -> &[NotUsed] {
        &self.not_used
    }

    /// A hint for developers that an unused interpreter was found; its path is only for the administrator.
    fn hint(&self, family: Family) -> &'static str {
        match self.not_used.iter().find(|one| one.family == family).map(|one| one.because) {
            Some(Because::Replaceable) => {
                "; another one was found and is not used, because another user of this host could replace it (`flint doctor` says which)"
            }
            Some(Because::Hangs) => {
                "; another one was found and is not used, because it hangs (`flint doctor` says which)"
            }
            None => "",
        }
    }

    fn of(&self, family: Family) -> impl Iterator<Item = &Arc<Runtime>> {
        self.found.iter().filter(move |runtime| runtime.family == family)
    }

    /// The runtime that `kind` means: `family:line`, `family:default`, `family`, or the newest of `python:3`.
    pub fn resolve(&self, kind: &Kind) -> Result<Engine, String> {
        if NATIVE.contains(&kind.family()) {
            return Ok(Engine::Native);
        }
        let Some(family) = Family::ALL.into_iter().find(|family| family.as_str() == kind.family()) else {
            return Err(format!("there is no such runtime; this host has {}", self.list()));
        };
        let fits = |runtime: &&Arc<Runtime>| match kind.version() {
            None | Some("default") => true,
            Some(line) => {
                runtime.line == line
                    || runtime.line.strip_prefix(line).is_some_and(|rest| rest.starts_with('.'))
            }
        };
        match self.of(family).find(fits) {
            Some(runtime) => Ok(Engine::Language(Arc::clone(runtime))),
            None if self.of(family).next().is_none() => {
                Err(format!("{}{}", family.lacking(), self.hint(family)))
            }
            None => Err(format!(
                "this version was not found on PATH or in runtimes.search; this host has {}{}",
                self.list(),
                self.hint(family)
            )),
        }
    }

    fn list(&self) -> String {
        let mut kinds: Vec<String> = self.found.iter().map(|runtime| runtime.kind()).collect();
        kinds.extend(NATIVE.map(str::to_owned));
        kinds.join(", ")
    }

    /// All runtimes found, newest first, and the families of which there is none.
    pub fn kinds(&self) -> Vec<RuntimeKind> {
        let mut kinds = Vec::new();
        for family in Family::ALL {
            let before = kinds.len();
            for runtime in self.of(family) {
                let state = Ok(format!("{} at {}", runtime.version_text(), runtime.program.display()));
                kinds.extend(entry(&runtime.kind(), kinds.len() == before, family == Family::Java, state));
            }
            if kinds.len() == before {
                let state = Err(format!("{}{}", family.lacking(), self.hint(family)));
                kinds.extend(entry(family.as_str(), true, family == Family::Java, state));
            }
        }
        for name in NATIVE {
            let state =
                Ok("any program: an executable file, or an archive with a program named exec".to_owned());
            kinds.extend(entry(name, true, false, state));
        }
        kinds
    }
}

/// `None` when `name` is not a valid kind, which no name in this file is.
fn entry(
    name: &str,
    default: bool,
    requires_main: bool,
    state: Result<String, String>,
) -> Option<RuntimeKind> {
    Some(RuntimeKind { kind: name.parse().ok()?, default, requires_main, state })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime(family: Family, line: &str, version: &[u32]) -> Arc<Runtime> {
        let (line, version) = (line.to_owned(), version.to_vec());
        Arc::new(Runtime {
            family,
            line,
            version,
            program: "/usr/bin/x".into(),
            mounts: vec![],
            compiler: None,
            arguments: vec![],
            libraries: None,
        })
    }

    #[test]
    fn a_runtime_in_a_home_directory_is_run_from_a_neutral_place() {
        let home = Path::new("/home/me/versions/3.13.0");
        let mut python = Arc::unwrap_or_clone(runtime(Family::Python, "3.13", &[3, 13, 0]));
        python.program = home.join("bin/python3.13");
        let before = python.identity();
        python.mounts = search::mount(home, "/opt/python3.13").into_iter().collect();
        assert_eq!(python.inside(&python.program), Path::new("/opt/python3.13/bin/python3.13"));
        assert_eq!(python.inside(home), Path::new("/opt/python3.13"));
        assert_eq!(python.inside(Path::new("/usr/bin/node")), Path::new("/usr/bin/node"));
        assert_ne!(python.identity(), before);
    }

    #[test]
    fn a_kind_means_the_newest_that_fits() {
        let found = vec![
            runtime(Family::Python, "3.13", &[3, 13, 0]),
            runtime(Family::Python, "3.9", &[3, 9, 18]),
            runtime(Family::Java, "17", &[17, 0, 15]),
        ];
        let not_used = vec![NotUsed {
            family: Family::Node,
            why: "/home/me/bin/node: /home/me belongs to user 7".to_owned(),
            because: Because::Replaceable,
        }];
        let runtimes = Runtimes { found, not_used };
        let line = |kind: &str| match runtimes.resolve(&kind.parse().unwrap()) {
            Ok(Engine::Language(runtime)) => Ok(runtime.line.clone()),
            Ok(Engine::Native) => Ok("native".to_owned()),
            Err(reason) => Err(reason),
        };
        assert_eq!(line("python:3").as_deref(), Ok("3.13"));
        assert_eq!(line("python:3.9").as_deref(), Ok("3.9"));
        assert_eq!(line("python:default").as_deref(), Ok("3.13"));
        assert_eq!(line("java").as_deref(), Ok("17"));
        assert_eq!(line("blackbox").as_deref(), Ok("native"));
        assert!(line("python:3.1").unwrap_err().contains("python:3.9"));
        assert!(line("nodejs:20").unwrap_err().contains("apt-get install nodejs"));
        assert!(line("cobol:85").unwrap_err().contains("no such runtime"));
        let why = line("nodejs:20").unwrap_err();
        assert!(why.contains("could replace it") && !why.contains("/home/me"), "{why}");
        assert!(!line("python:3.1").unwrap_err().contains("replace"));
        let kinds = runtimes.kinds();
        // Limits of namespaces may name every one of them.
        assert!(kinds.iter().all(|entry| Kind::FAMILIES.contains(&entry.kind.family())), "{kinds:?}");
        let named = |name: &str| kinds.iter().find(|entry| entry.kind.as_str() == name).unwrap();
        assert!(named("python:3.13").default && !named("python:3.9").default);
        for (family, package) in [("go", "golang-go"), ("php", "php-cli"), ("ruby", "'apt-get install ruby'")]
        {
            let state = named(family).state.as_ref().unwrap_err();
            assert!(state.contains(package), "{state}");
            assert_eq!(runtimes.resolve(&family.parse().unwrap()).as_ref().unwrap_err(), state);
        }
    }
}
